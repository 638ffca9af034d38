// A sorted array with holes that is closed up when half of it is holes.
#include "watches.h"

#include <stdlib.h>
#include <string.h>

enum { WATCHES_MAX = 65536 };

static struct watch *find(const struct watches *watches, int number) {
  size_t low = 0, high = watches->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (watches->all[middle].number < number) low = middle + 1;
    else high = middle;
  }
  if (low == watches->count || watches->all[low].number != number) return NULL;
  return &watches->all[low];
}

static void close_up(struct watches *watches) {
  size_t kept = 0;
  for (size_t i = 0; i < watches->count; i++) {
    if (watches->all[i].path != NULL) watches->all[kept++] = watches->all[i];
  }
  watches->count = kept;
  watches->gone = 0;
}

static bool make_room(struct watches *watches) {
  if (watches->count < watches->capacity) return true;
  if (watches->gone > watches->count / 2) close_up(watches);
  if (watches->count - watches->gone >= WATCHES_MAX) return false;
  if (watches->count < watches->capacity) return true;
  size_t wanted = watches->capacity == 0 ? 256 : watches->capacity * 2;
  struct watch *grown = realloc(watches->all, wanted * sizeof *grown);
  if (grown == NULL) return false;
  watches->all = grown;
  watches->capacity = wanted;
  return true;
}

bool watches_add(struct watches *watches, int number, const char *path) {
  char *copy = strdup(path);
  if (copy == NULL) return false;
  struct watch *known = find(watches, number);
  if (known != NULL) {
    if (known->path == NULL) watches->gone--;
    free(known->path);
    known->path = copy;
    return true;
  }
  // Numbers begin again only after two thousand million.
  bool in_order = watches->count == 0 || watches->all[watches->count - 1].number < number;
  if (!in_order || !make_room(watches)) {
    free(copy);
    return false;
  }
  watches->all[watches->count++] = (struct watch){.number = number, .path = copy};
  return true;
}

const char *watches_path(const struct watches *watches, int number) {
  const struct watch *watch = find(watches, number);
  return watch == NULL ? NULL : watch->path;
}

void watches_forget(struct watches *watches, int number) {
  struct watch *watch = find(watches, number);
  if (watch == NULL || watch->path == NULL) return;
  free(watch->path);
  watch->path = NULL;
  watches->gone++;
}

int watches_below(const struct watches *watches, const char *path, size_t *from) {
  size_t length = strlen(path);
  while (*from < watches->count) {
    const struct watch *watch = &watches->all[(*from)++];
    const char *at = watch->path;
    if (at != NULL && strncmp(at, path, length) == 0 && (at[length] == 0 || at[length] == '/')) return watch->number;
  }
  return -1;
}
