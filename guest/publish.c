// Files written beside their target and published by rename.
#include "publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "files.h"
#include "link.h"

enum { LINKS_MAX = 40, COPY_BYTES_MAX = 1 << 30 };

// Replaces the path by what the link at it points to.
static int follow_link(char path[PATH_TEXT_MAX + 1]) {
  char target[PATH_TEXT_MAX + 1];
  ssize_t length = readlink(path, target, sizeof target);
  if (length < 0) return errno;
  size_t kept = target[0] == '/' ? 0 : (size_t)(strrchr(path, '/') - path) + 1;
  if (kept + (size_t)length > PATH_TEXT_MAX) return ENAMETOOLONG;
  memcpy(path + kept, target, (size_t)length);
  path[kept + (size_t)length] = 0;
  return 0;
}

// Writing through a link changes the file it points to, as it does for every program.
static int resolve_target(struct publication *publication, bool has_mode) {
  for (int links = 0; links <= LINKS_MAX; links++) {
    struct stat status;
    if (lstat(publication->target, &status) != 0) return errno == ENOENT ? 0 : failed("stat", errno);
    if (S_ISDIR(status.st_mode)) return failed("open", EISDIR);
    if (S_ISREG(status.st_mode)) {
      publication->replaces = true;
      publication->uid = status.st_uid;
      publication->gid = status.st_gid;
      if (!has_mode) publication->mode = status.st_mode & 07777;
      return 0;
    }
    // A device or pipe would be replaced by a file.
    if (!S_ISLNK(status.st_mode)) return failed("open", EINVAL);
    int error = follow_link(publication->target);
    if (error != 0) return failed("readlink", error);
  }
  return failed("open", ELOOP);
}

static int open_directory(struct publication *publication) {
  char *slash = strrchr(publication->target, '/');
  publication->name = slash + 1;
  char kept = slash[1];
  // The root keeps its slash.
  slash[slash == publication->target ? 1 : 0] = 0;
  publication->directory = open(publication->target, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int error = errno;
  *slash = '/';
  slash[1] = kept;
  return publication->directory >= 0 ? 0 : failed("open", error);
}

static int open_temporary(struct publication *publication) {
  for (int attempt = 0; attempt < 8; attempt++) {
    unsigned long long number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return failed("random", errno);
    snprintf(publication->temporary, sizeof publication->temporary, ".catnap-%016llx", number);
    publication->fd =
        openat(publication->directory, publication->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (publication->fd >= 0) return 0;
    if (errno != EEXIST) break;
  }
  return failed("open", errno);
}

int publish_begin(struct publication *publication, const char *path, bool has_mode, mode_t mode) {
  *publication = (struct publication){.fd = -1, .directory = -1, .mode = has_mode ? mode : 0644};
  if (path[strlen(path) - 1] == '/') return failed("open", EISDIR);
  strcpy(publication->target, path);
  int error = resolve_target(publication, has_mode);
  if (error == 0) error = make_parents(publication->target);
  if (error == 0) error = open_directory(publication);
  return error == 0 ? open_temporary(publication) : error;
}

// The target is a mount point of its own, as bind-mounted single files are: its content is replaced where it is.
static int overwrite_target(struct publication *publication) {
  int target = openat(publication->directory, publication->name, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (target < 0) return failed("open", errno);
  int error = lseek(publication->fd, 0, SEEK_SET) < 0 ? errno : copy_content(publication->fd, target);
  if (error == 0 && fchmod(target, publication->mode) != 0) error = errno;
  close(target);
  unlinkat(publication->directory, publication->temporary, 0);
  publication->temporary[0] = 0;
  return error == 0 ? 0 : failed("write", error);
}

static int describe_published(struct publication *publication, struct stat *status, bool in_place) {
  int result = in_place ? fstatat(publication->directory, publication->name, status, AT_SYMLINK_NOFOLLOW) : fstat(publication->fd, status);
  if (result != 0) return failed("stat", errno);
  close(publication->fd);
  close(publication->directory);
  return 0;
}

int publish_finish(struct publication *publication, struct stat *status) {
  // An owner that cannot be kept is not worth failing for; the mode comes after, because a new owner clears bits of it.
  if (publication->replaces && fchown(publication->fd, publication->uid, publication->gid) != 0) errno = 0;
  if (fchmod(publication->fd, publication->mode) != 0) return failed("chmod", errno);
  if (renameat(publication->directory, publication->temporary, publication->directory, publication->name) != 0) {
    if (errno != EBUSY || !publication->replaces) return failed("rename", errno);
    int error = overwrite_target(publication);
    return error != 0 ? error : describe_published(publication, status, true);
  }
  publication->temporary[0] = 0;
  return describe_published(publication, status, false);
}

void publish_abort(struct publication *publication) {
  if (publication->temporary[0] != 0) unlinkat(publication->directory, publication->temporary, 0);
  if (publication->fd >= 0) close(publication->fd);
  if (publication->directory >= 0) close(publication->directory);
}

static int copy_by_buffer(int from, int to) {
  static char bytes[64 * 1024];
  for (;;) {
    ssize_t got = read(from, bytes, sizeof bytes);
    if (got == 0) return 0;
    if (got < 0) return errno;
    for (ssize_t done = 0; done < got;) {
      ssize_t written = write(to, bytes + done, (size_t)(got - done));
      if (written < 0) return errno;
      done += written;
    }
  }
}

int copy_content(int from, int to) {
  for (;;) {
    ssize_t copied = copy_file_range(from, NULL, to, NULL, COPY_BYTES_MAX, 0);
    if (copied > 0) continue;
    // Not between these file systems, or nothing because the size says so though there is content: the plain way finds out.
    if (copied == 0 || errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EBADF) {
      return copy_by_buffer(from, to);
    }
    if (errno != EINTR) return errno;
  }
}
