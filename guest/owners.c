// Names of owners and groups; the files are the sandbox's and may contain anything, so reading them is bounded.
#include "owners.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "names.h"

enum { FILE_BYTES_MAX = 256 * 1024 };

struct names {
  const char *path;
  bool loaded;
  char *text;
  bool known;
  uint32_t id;
  char name[OWNER_TEXT_MAX + 1];
};

static void load(struct names *names) {
  names->loaded = true;
  int fd = open(names->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return;
  struct stat status;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= FILE_BYTES_MAX) {
    size_t size = (size_t)status.st_size;
    names->text = malloc(size + 1);
    ssize_t got = names->text == NULL ? -1 : read(fd, names->text, size);
    if (names->text != NULL) names->text[got > 0 ? got : 0] = 0;
  }
  close(fd);
}

static const char *find(struct names *names, uint32_t id) {
  if (names->known && names->id == id) return names->name;
  if (!names->loaded) load(names);
  names->known = true;
  names->id = id;
  if (names->text == NULL || !find_name(names->text, id, names->name)) {
    snprintf(names->name, sizeof names->name, "%u", id);
  }
  return names->name;
}

static struct names owners = {.path = "/etc/passwd"};
static struct names groups = {.path = "/etc/group"};

const char *owner_name(uint32_t uid) { return find(&owners, uid); }

const char *group_name(uint32_t gid) { return find(&groups, gid); }

static void forget(struct names *names) {
  free(names->text);
  *names = (struct names){.path = names->path};
}

void owners_forget(void) {
  forget(&owners);
  forget(&groups);
}
