// Which directory each inotify watch stands for, as a path relative to where the watching began.
#ifndef CATNAP_WATCHES_H
#define CATNAP_WATCHES_H

#include <stdbool.h>
#include <stddef.h>

struct watch {
  int number;
  // NULL once the watch is gone.
  char *path;
};

// Ordered by number, which the kernel counts up.
struct watches {
  struct watch *all;
  size_t count;
  size_t gone;
  size_t capacity;
};

// Remembers a copy of the path; false without memory, or when there are too many.
bool watches_add(struct watches *watches, int number, const char *path);
// NULL when it is not known.
const char *watches_path(const struct watches *watches, int number);
void watches_forget(struct watches *watches, int number);
// The number of the next watch at or below a path, -1 when there is none. `from` begins at 0 and goes along; nothing may be added meanwhile.
int watches_below(const struct watches *watches, const char *path, size_t *from);

#endif
