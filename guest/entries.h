// Reads the names in a directory, with a fixed buffer and without `.` and `..`.
#ifndef CATNAP_ENTRIES_H
#define CATNAP_ENTRIES_H

#include <stddef.h>

// Zero but for `directory`, a descriptor the caller owns.
struct entries {
  int directory;
  int error;
  // Of the name returned last, as getdents has it: DT_UNKNOWN when the file system does not say.
  unsigned char type;
  size_t at;
  size_t filled;
  _Alignas(8) char buffer[16 * 1024];
};

// NULL at the end and after an error, which `error` then holds.
const char *entries_next(struct entries *entries);
// From the first name again.
void entries_restart(struct entries *entries);

#endif
