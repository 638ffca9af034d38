// Names of owners and groups from the sandbox's own /etc/passwd and /etc/group.
#ifndef CATNAP_OWNERS_H
#define CATNAP_OWNERS_H

#include <stdint.h>

// The number as text when no name is found. Valid until another id is looked up.
const char *owner_name(uint32_t uid);
const char *group_name(uint32_t gid);
// The files are read anew for the next name.
void owners_forget(void);

#endif
