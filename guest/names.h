// Looks up the name of an id in the text of a passwd or group file, which may contain anything.
#ifndef CATNAP_NAMES_H
#define CATNAP_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol.h"

bool find_name(const char *text, uint32_t id, char name[OWNER_TEXT_MAX + 1]);

#endif
