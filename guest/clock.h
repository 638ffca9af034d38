// The time that deadlines inside the init are told by.
#ifndef CATNAP_CLOCK_H
#define CATNAP_CLOCK_H

#include <stdint.h>

// Never set back, and of no use outside this machine.
int64_t now_ms(void);

#endif
