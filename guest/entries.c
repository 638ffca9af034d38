// Reads the names in a directory by the system call itself: no allocation, and the same on every C library.
#include "entries.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// As the kernel writes it.
struct kernel_entry {
  uint64_t inode;
  int64_t next_offset;
  uint16_t length;
  uint8_t type;
  char name[];
};

const char *entries_next(struct entries *entries) {
  for (;;) {
    if (entries->at >= entries->filled) {
      long got = syscall(SYS_getdents64, entries->directory, entries->buffer, sizeof entries->buffer);
      if (got < 0) entries->error = errno;
      if (got <= 0) return NULL;
      entries->at = 0;
      entries->filled = (size_t)got;
    }
    const struct kernel_entry *entry = (const struct kernel_entry *)(entries->buffer + entries->at);
    entries->at += entry->length;
    entries->type = entry->type;
    if (strcmp(entry->name, ".") != 0 && strcmp(entry->name, "..") != 0) return entry->name;
  }
}

void entries_restart(struct entries *entries) {
  entries->at = entries->filled = 0;
  if (lseek(entries->directory, 0, SEEK_SET) < 0) entries->error = errno;
}
