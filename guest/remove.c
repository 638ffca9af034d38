// Removing files and whole trees without following links, with two descriptors however deep the tree is.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "entries.h"
#include "files.h"
#include "link.h"
#include "protocol.h"

enum { DEPTH_MAX = 1024 * 1024 };

// Where a directory was entered from: on the way up `..` must still be it, or somebody moved the tree meanwhile.
struct level {
  dev_t device;
  ino_t inode;
};

struct walk {
  struct entries entries;
  struct level *levels;
  size_t depth;
  size_t capacity;
};

// 0 when it is gone, ENOTEMPTY when it is a directory with entries.
static int remove_one(int directory, const char *name) {
  if (unlinkat(directory, name, 0) == 0 || errno == ENOENT) return 0;
  int error = errno;
  // EISDIR on Linux; some file systems answer EPERM for directories.
  if (error != EISDIR && error != EPERM) return error;
  if (unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return 0;
  if (errno == EEXIST) return ENOTEMPTY;
  return errno == ENOTDIR ? error : errno;
}

static int move_to(struct walk *walk, int directory) {
  close(walk->entries.directory);
  walk->entries.directory = directory;
  entries_restart(&walk->entries);
  return 0;
}

static int go_down(struct walk *walk, const char *name) {
  struct stat here;
  if (fstat(walk->entries.directory, &here) != 0) return errno;
  if (walk->depth == walk->capacity) {
    size_t wanted = walk->capacity == 0 ? 64 : walk->capacity * 2;
    if (wanted > DEPTH_MAX) return ELOOP;
    struct level *grown = realloc(walk->levels, wanted * sizeof *grown);
    if (grown == NULL) return ENOMEM;
    walk->levels = grown;
    walk->capacity = wanted;
  }
  int directory = openat(walk->entries.directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return errno == ENOENT ? 0 : errno;
  walk->levels[walk->depth++] = (struct level){.device = here.st_dev, .inode = here.st_ino};
  return move_to(walk, directory);
}

static int go_up(struct walk *walk) {
  struct level expected = walk->levels[--walk->depth];
  int directory = openat(walk->entries.directory, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return errno;
  struct stat above;
  if (fstat(directory, &above) != 0 || above.st_dev != expected.device || above.st_ino != expected.inode) {
    close(directory);
    return ESTALE;
  }
  // Its names are read anew: the emptied directory is among them and goes now.
  return move_to(walk, directory);
}

static int empty_directory(const char *path) {
  struct walk walk = {.entries = {.directory = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)}};
  if (walk.entries.directory < 0) return errno;
  int error = 0;
  while (error == 0) {
    const char *name = entries_next(&walk.entries);
    if (name == NULL) {
      error = walk.entries.error;
      if (error != 0 || walk.depth == 0) break;
      error = go_up(&walk);
      continue;
    }
    error = remove_one(walk.entries.directory, name);
    if (error == ENOTEMPTY) error = go_down(&walk, name);
  }
  close(walk.entries.directory);
  free(walk.levels);
  return error;
}

int files_remove(const struct file_request *request) {
  char path[PATH_TEXT_MAX + 1];
  plain_path(request->path, path);
  struct stat status;
  if (lstat(path, &status) != 0) return failed("remove", errno);
  int error = remove_one(AT_FDCWD, path);
  if (error == ENOTEMPTY && request->recursive) {
    error = empty_directory(path);
    if (error == 0) error = remove_one(AT_FDCWD, path);
  }
  if (error != 0) return failed("remove", error);
  link_send_done();
  return 0;
}
