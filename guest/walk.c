// Walks a tree by descriptors without following links, and names what it finds as paths relative to where it began.
#include "walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "clock.h"
#include "entries.h"
#include "items.h"
#include "link.h"

// Each level holds a descriptor and a buffer of names.
enum { LEVELS_MAX = 200, STEPS_PER_CLOCK = 64 };

struct level {
  struct entries entries;
  // Where its own names begin in the path.
  size_t path_length;
};

struct walk {
  const struct file_request *request;
  struct level *levels[LEVELS_MAX];
  size_t depth;
  uint32_t found;
  unsigned steps;
  // When the host was last told something.
  int64_t told_s;
  char path[PATH_TEXT_MAX + 1];
  struct items items;
};

// File systems that describe the machine: they have no files of the user's, and reading some of theirs has effects.
static bool is_machinery(int directory) {
  struct statfs status;
  if (fstatfs(directory, &status) != 0) return false;
  const uint32_t proc = 0x9fa0, sysfs = 0x62656572, cgroup = 0x0027e0eb, cgroup2 = 0x63677270;
  uint32_t type = (uint32_t)status.f_type;
  return type == proc || type == sysfs || type == cgroup || type == cgroup2;
}

static bool is_excluded(const struct file_request *request, const char *name) {
  struct cursor cursor = request->names.texts;
  for (uint32_t i = 0; i < request->names.count; i++) {
    if (strcmp(take_text(&cursor, NAME_TEXT_MAX), name) == 0) return true;
  }
  return false;
}

static uint8_t type_of(const struct level *level, const char *name) {
  switch (level->entries.type) {
    case DT_REG:
      return TYPE_FILE;
    case DT_DIR:
      return TYPE_DIRECTORY;
    case DT_LNK:
      return TYPE_SYMLINK;
    case DT_UNKNOWN:
      break;
    default:
      return TYPE_OTHER;
  }
  struct stat status;
  if (fstatat(level->entries.directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return TYPE_OTHER;
  if (S_ISDIR(status.st_mode)) return TYPE_DIRECTORY;
  if (S_ISLNK(status.st_mode)) return TYPE_SYMLINK;
  return S_ISREG(status.st_mode) ? TYPE_FILE : TYPE_OTHER;
}

// What cannot be entered, or lies too deep, is named all the same.
static void enter(struct walk *walk, int directory, size_t path_length) {
  if (directory < 0) return;
  struct level *level = NULL;
  if (walk->depth < LEVELS_MAX && !(walk->depth > 0 && is_machinery(directory))) level = malloc(sizeof *level);
  if (level == NULL) {
    close(directory);
    return;
  }
  memset(level, 0, sizeof *level);
  level->entries.directory = directory;
  level->path_length = path_length;
  walk->levels[walk->depth++] = level;
}

static void leave(struct walk *walk) {
  struct level *level = walk->levels[--walk->depth];
  close(level->entries.directory);
  free(level);
}

// Appends a name to the path of its directory; 0 when the whole is too long.
static size_t extend_path(struct walk *walk, const struct level *level, const char *name) {
  size_t at = level->path_length;
  size_t length = strlen(name);
  if (at + length + 1 > PATH_TEXT_MAX) return 0;
  memcpy(walk->path + at, name, length + 1);
  return at + length;
}

// False when the host is gone.
static bool report(struct walk *walk, uint8_t type) {
  uint8_t wanted = type == TYPE_DIRECTORY ? WALK_DIRECTORIES : WALK_FILES;
  if ((walk->request->flags & wanted) == 0) return true;
  uint8_t bytes[ITEM_BYTES_MAX];
  struct packer item = {.start = bytes, .max = sizeof bytes};
  put_found(&item, type, walk->path);
  walk->found++;
  return items_add(&walk->items, &item);
}

// One name of the deepest directory; false when the host is gone.
static bool visit(struct walk *walk, struct level *level, const char *name) {
  if (name[0] == '.' && (walk->request->flags & WALK_SKIP_HIDDEN) != 0) return true;
  uint8_t type = type_of(level, name);
  if (type == TYPE_DIRECTORY && is_excluded(walk->request, name)) return true;
  size_t length = extend_path(walk, level, name);
  if (length == 0) return true;
  if (!report(walk, type)) return false;
  if (type != TYPE_DIRECTORY) return true;
  int directory = openat(level->entries.directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  walk->path[length] = '/';
  enter(walk, directory, length + 1);
  return true;
}

// What was found does not wait for more of it, and a host that waits for long learns that the walk goes on. False when it is gone.
static bool stay_in_touch(struct walk *walk) {
  if (link_abandoned()) return false;
  if (++walk->steps % STEPS_PER_CLOCK != 0) return true;
  int64_t now = now_ms() / 1000;
  if (now == walk->told_s) return true;
  walk->told_s = now;
  return items_send(&walk->items);
}

int walk_serve(const struct file_request *request) {
  static struct walk walk;
  walk.request = request;
  walk.items.type = FRAME_FOUND;
  int directory = open(request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  if (directory < 0) return failed("open", errno);
  enter(&walk, directory, 0);
  walk.told_s = now_ms() / 1000;
  while (walk.depth > 0 && walk.found < request->entries_max) {
    if (!stay_in_touch(&walk)) return 0;
    struct level *level = walk.levels[walk.depth - 1];
    const char *name = entries_next(&level->entries);
    if (name == NULL) leave(&walk);
    else if (!visit(&walk, level, name)) return 0;
  }
  if (items_flush(&walk.items)) link_send_done();
  return 0;
}
