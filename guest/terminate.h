// The end of the sandbox, asked for from outside.
#ifndef CATNAP_TERMINATE_H
#define CATNAP_TERMINATE_H

// Kills every process and exits.
_Noreturn void terminate_all(void);

#endif
