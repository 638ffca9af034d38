// The init's power over files that are not readable for it.
#ifndef CATNAP_PRIVILEGE_H
#define CATNAP_PRIVILEGE_H

#include <stdbool.h>

// Puts the power down, or takes it up again; an exec gives it back, too.
void privilege_read_all(bool enabled);

#endif
