// Which build of the init this is: the build says it.
#include "version.h"

#ifndef CATNAP_BUILD
#define CATNAP_BUILD "unknown"
#endif

const char *const version_text = CATNAP_BUILD;
