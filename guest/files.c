// File operations that move no content: stat, list, making directories.
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "entries.h"
#include "link.h"
#include "owners.h"
#include "protocol.h"

static uint8_t type_of(mode_t mode) {
  if (S_ISREG(mode)) return TYPE_FILE;
  if (S_ISDIR(mode)) return TYPE_DIRECTORY;
  return S_ISLNK(mode) ? TYPE_SYMLINK : TYPE_OTHER;
}

// Kept within what every reader can represent: a file's times and a sparse file's size are whatever its owner says.
static int64_t milliseconds(struct timespec time) {
  const int64_t seconds_max = 8640000000000;
  if (time.tv_sec > seconds_max) return seconds_max * 1000;
  if (time.tv_sec < -seconds_max) return -seconds_max * 1000;
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static uint64_t size_of(const struct stat *status) {
  const uint64_t size_max = ((uint64_t)1 << 53) - 1;
  return (uint64_t)status->st_size < size_max ? (uint64_t)status->st_size : size_max;
}

struct attributes describe(const struct stat *status, const char *path) {
  const char *slash = strrchr(path, '/');
  return (struct attributes){
      .type = type_of(status->st_mode),
      .mode = status->st_mode & 07777,
      .uid = status->st_uid,
      .gid = status->st_gid,
      .size = size_of(status),
      .modified_at_ms = milliseconds(status->st_mtim),
      .owner = owner_name(status->st_uid),
      .group = group_name(status->st_gid),
      .name = slash != NULL && slash[1] != 0 ? slash + 1 : path,
  };
}

int plain_path(const char *path, char plain[]) {
  size_t length = strlen(path);
  if (length > PATH_TEXT_MAX) return failed("path", ENAMETOOLONG);
  while (length > 1 && path[length - 1] == '/') length--;
  memcpy(plain, path, length);
  plain[length] = 0;
  return 0;
}

int files_stat(const struct file_request *request) {
  char path[PATH_TEXT_MAX + 1];
  plain_path(request->path, path);
  struct stat status;
  // A link that leads nowhere is described itself.
  if (stat(path, &status) != 0 && (errno != ENOENT || lstat(path, &status) != 0)) return failed("stat", errno);
  struct attributes attributes = describe(&status, path);
  link_send_attributes(&attributes);
  return 0;
}

int files_set_mode(const struct file_request *request) {
  char path[PATH_TEXT_MAX + 1];
  plain_path(request->path, path);
  struct stat status;
  if (chmod(path, request->mode) != 0) return failed("chmod", errno);
  if (stat(path, &status) != 0) return failed("stat", errno);
  struct attributes attributes = describe(&status, path);
  link_send_attributes(&attributes);
  return 0;
}

int files_list(const struct file_request *request) {
  static uint8_t bytes[ENTRIES_PAYLOAD_MAX];
  int directory = open(request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
  if (directory < 0) return failed("open", errno);
  struct entries entries = {.directory = directory};
  struct packer packer = {.start = bytes, .max = sizeof bytes};
  size_t begun = frame_begin(&packer, FRAME_ENTRIES, 0);
  uint32_t count = 0;
  const char *name;
  while ((name = entries_next(&entries)) != NULL) {
    struct stat status;
    if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;
      return failed("stat", errno);
    }
    if (count++ == request->entries_max) return failed("list", EOVERFLOW);
    struct attributes attributes = describe(&status, name);
    size_t complete = packer.length;
    put_attributes(&packer, &attributes);
    if (!packer.full) continue;
    packer.length = complete;
    packer.full = false;
    frame_complete(&packer, begun);
    if (!link_send(bytes, packer.length)) return 0;
    packer.length = 0;
    begun = frame_begin(&packer, FRAME_ENTRIES, 0);
    put_attributes(&packer, &attributes);
  }
  if (entries.error != 0) return failed("list", entries.error);
  close(directory);
  frame_complete(&packer, begun);
  if (link_send(bytes, packer.length)) link_send_done();
  return 0;
}

static int is_directory(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return errno;
  return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

int make_parents(const char *path) {
  char parent[PATH_TEXT_MAX + 1];
  strncpy(parent, path, PATH_TEXT_MAX);
  parent[PATH_TEXT_MAX] = 0;
  char *slash = strrchr(parent, '/');
  if (slash == NULL || slash == parent) return 0;
  *slash = 0;
  // Most often they exist.
  int error = is_directory(parent);
  if (error == ENOTDIR) return failed("mkdir", ENOTDIR);
  if (error == 0) return 0;
  for (char *at = parent + 1;; at++) {
    if (*at != '/' && *at != 0) continue;
    char end = *at;
    *at = 0;
    if (mkdir(parent, 0755) != 0 && errno != EEXIST) return failed("mkdir", errno);
    if (end == 0) break;
    *at = end;
  }
  error = is_directory(parent);
  return error == 0 ? 0 : failed("mkdir", error);
}

int files_make_directory(const struct file_request *request) {
  char path[PATH_TEXT_MAX + 1];
  plain_path(request->path, path);
  int error = make_parents(path);
  if (error != 0) return error;
  if (mkdir(path, 0755) == 0) {
    if (request->has_mode && chmod(path, request->mode) != 0) return failed("chmod", errno);
  } else {
    if (errno != EEXIST) return failed("mkdir", errno);
    if (is_directory(path) != 0) return failed("mkdir", EEXIST);
  }
  link_send_done();
  return 0;
}
