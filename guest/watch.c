// Watches by inotify. What cannot be followed any more is told as an overflow: the host then knows that changes may be missing.
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entries.h"
#include "items.h"
#include "link.h"
#include "watches.h"

enum {
  CHANGES = IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF,
  DEPTH_MAX = 200,
};

struct watching {
  const struct file_request *request;
  int inotify;
  struct watches watches;
  struct items items;
  bool host_gone;
};

static void tell(struct watching *watching, uint8_t change, bool is_directory, const char *path) {
  uint8_t bytes[ITEM_BYTES_MAX];
  struct packer item = {.start = bytes, .max = sizeof bytes};
  put_change(&item, change, is_directory, path);
  if (!items_add(&watching->items, &item)) watching->host_gone = true;
}

// Joins a relative path and a name; false when the whole is too long.
static bool join(char *joined, const char *path, const char *name) {
  int length = snprintf(joined, PATH_TEXT_MAX + 1, "%s%s%s", path, path[0] == 0 ? "" : "/", name);
  return length >= 0 && length <= PATH_TEXT_MAX;
}

static bool absolute(const struct watching *watching, char *whole, const char *path) {
  int length = snprintf(whole, PATH_TEXT_MAX + 1, "%s%s%s", watching->request->path, path[0] == 0 ? "" : "/", path);
  return length >= 0 && length <= PATH_TEXT_MAX;
}

// 0, or the errno that says why it cannot be watched.
static int watch_one(struct watching *watching, const char *path) {
  char whole[PATH_TEXT_MAX + 1];
  if (!absolute(watching, whole, path)) return ENAMETOOLONG;
  // Where the watching begins a link may be meant; below, links lead elsewhere.
  uint32_t below = path[0] == 0 ? 0 : IN_ONLYDIR | IN_DONT_FOLLOW;
  int number = inotify_add_watch(watching->inotify, whole, CHANGES | IN_EXCL_UNLINK | below);
  if (number < 0) return errno;
  if (watches_add(&watching->watches, number, path)) return 0;
  inotify_rm_watch(watching->inotify, number);
  return ENOSPC;
}

static int watch_tree(struct watching *watching, const char *path, bool announce, unsigned depth);

// Watches come first: what appears after them is told by them, what was there before is found by reading.
static int watch_children(struct watching *watching, const char *path, bool announce, unsigned depth) {
  char whole[PATH_TEXT_MAX + 1];
  if (depth >= DEPTH_MAX || !absolute(watching, whole, path)) return ENAMETOOLONG;
  // As in watch_one.
  int nofollow = path[0] == 0 ? 0 : O_NOFOLLOW;
  int directory = open(whole, O_RDONLY | O_DIRECTORY | nofollow | O_NONBLOCK | O_CLOEXEC);
  if (directory < 0) return errno;
  struct entries *entries = calloc(1, sizeof *entries);
  int error = entries == NULL ? ENOMEM : 0;
  if (entries != NULL) entries->directory = directory;
  const char *name;
  while (error == 0 && !watching->host_gone && (name = entries_next(entries)) != NULL) {
    if (link_abandoned()) watching->host_gone = true;
    char child[PATH_TEXT_MAX + 1];
    struct stat status;
    if (!join(child, path, name) || fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bool is_directory = S_ISDIR(status.st_mode);
    if (announce) tell(watching, CHANGE_CREATE, is_directory, child);
    if (is_directory) error = watch_tree(watching, child, announce, depth + 1);
  }
  free(entries);
  close(directory);
  return error;
}

static int watch_tree(struct watching *watching, const char *path, bool announce, unsigned depth) {
  int error = watch_one(watching, path);
  if (error == 0 && watching->request->recursive) error = watch_children(watching, path, announce, depth);
  // It went while it was looked at, or is no directory.
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ? 0 : error;
}

static void unwatch_tree(struct watching *watching, const char *path) {
  int number;
  size_t from = 0;
  while ((number = watches_below(&watching->watches, path, &from)) >= 0) {
    inotify_rm_watch(watching->inotify, number);
    watches_forget(&watching->watches, number);
  }
}

static void follow_directory(struct watching *watching, const struct inotify_event *event, const char *path) {
  if (!watching->request->recursive) return;
  if ((event->mask & IN_MOVED_FROM) != 0) unwatch_tree(watching, path);
  if ((event->mask & (IN_CREATE | IN_MOVED_TO)) == 0) return;
  if (watch_tree(watching, path, true, 1) != 0) tell(watching, CHANGE_OVERFLOW, true, path);
}

static uint8_t change_of(uint32_t mask) {
  if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0) return CHANGE_CREATE;
  if ((mask & IN_MODIFY) != 0) return CHANGE_WRITE;
  if ((mask & (IN_DELETE | IN_DELETE_SELF)) != 0) return CHANGE_REMOVE;
  if ((mask & (IN_MOVED_FROM | IN_MOVE_SELF)) != 0) return CHANGE_RENAME;
  return (mask & IN_ATTRIB) != 0 ? CHANGE_CHMOD : 0;
}

static void take_event(struct watching *watching, const struct inotify_event *event) {
  if ((event->mask & IN_Q_OVERFLOW) != 0) return tell(watching, CHANGE_OVERFLOW, true, "");
  const char *path = watches_path(&watching->watches, event->wd);
  if (path == NULL) return;
  if ((event->mask & IN_IGNORED) != 0) return watches_forget(&watching->watches, event->wd);
  uint8_t change = change_of(event->mask);
  bool has_name = event->len > 0 && event->name[0] != 0;
  // Of a directory below, its parent tells the same under its name.
  if (change == 0 || (!has_name && path[0] != 0)) return;
  char child[PATH_TEXT_MAX + 1];
  if (!join(child, path, has_name ? event->name : "")) return;
  if (!has_name) child[0] = 0;
  bool is_directory = (event->mask & IN_ISDIR) != 0;
  tell(watching, change, is_directory, child);
  if (is_directory && has_name) follow_directory(watching, event, child);
}

// False when there is nothing more to tell.
static bool take_events(struct watching *watching) {
  static _Alignas(struct inotify_event) char buffer[64 * 1024];
  ssize_t got = read(watching->inotify, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  for (const char *at = buffer; at < buffer + got;) {
    const struct inotify_event *event = (const struct inotify_event *)at;
    take_event(watching, event);
    at += sizeof *event + event->len;
  }
  return items_flush(&watching->items) && !watching->host_gone;
}

int watch_serve(const struct file_request *request) {
  static struct watching watching;
  watching.request = request;
  watching.items.type = FRAME_CHANGES;
  watching.inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watching.inotify < 0) return failed("inotify", errno);
  int error = watch_one(&watching, "");
  if (error == 0 && request->recursive) error = watch_children(&watching, "", false, 1);
  if (watching.host_gone) return 0;
  // A file has no children.
  if (error != 0 && error != ENOTDIR) return failed("watch", error);
  link_send_done();
  struct pollfd ends[] = {{.fd = watching.inotify, .events = POLLIN}, {.fd = link_descriptor(), .events = POLLIN}};
  for (;;) {
    if (poll(ends, 2, -1) < 0 && errno != EINTR) return 0;
    // The host sends nothing more: whatever comes is its end.
    if (ends[1].revents != 0) return 0;
    if (ends[0].revents != 0 && !take_events(&watching)) return 0;
  }
}
