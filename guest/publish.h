// A file written beside its target and published by rename, so that the target is the old file or the new one, never a part.
#ifndef CATNAP_PUBLISH_H
#define CATNAP_PUBLISH_H

#include <stdbool.h>
#include <sys/stat.h>

#include "messages.h"
#include "protocol.h"

struct publication {
  int fd;
  // Where both names are: a part of the path may lead elsewhere by the time the file is published.
  int directory;
  char target[PATH_TEXT_MAX + 1];
  // Last segment of the target.
  const char *name;
  char temporary[32];
  mode_t mode;
  bool replaces;
  uid_t uid;
  gid_t gid;
};

// Follows links to the real target, makes its parents and opens the temporary file. 0 or an errno; abort is needed only after 0.
int publish_begin(struct publication *publication, const char *path, bool has_mode, mode_t mode);
// Closes the file when it succeeds.
int publish_finish(struct publication *publication, struct stat *status);
void publish_abort(struct publication *publication);
// Appends all of a file, or what is left of it, without a detour through this process where the kernel can.
int copy_content(int from, int to);

#endif
