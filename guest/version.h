// Which build of the init this is.
#ifndef CATNAP_VERSION_H
#define CATNAP_VERSION_H

// The beginning of the digest of its sources and compiler options.
extern const char *const version_text;

#endif
