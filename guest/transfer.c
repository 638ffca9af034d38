// File operations that move content: read, write, concatenate.
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "files.h"
#include "link.h"
#include "publish.h"
#include "upload.h"

enum { BUFFER_BYTES = 256 * 1024, SMALL_BYTES = 64 * 1024 };

static uint8_t buffer[BUFFER_BYTES];

// Opened without waiting for writers of a pipe, without becoming a terminal's owner, and only if it is a plain file.
static int open_plain(const char *path, struct stat *status, int *fd) {
  *fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (*fd < 0) return failed("open", errno);
  int error = 0;
  if (fstat(*fd, status) != 0) error = errno;
  else if (S_ISDIR(status->st_mode)) error = EISDIR;
  else if (!S_ISREG(status->st_mode)) error = EINVAL;
  if (error != 0) close(*fd);
  return error == 0 ? 0 : failed("open", error);
}

// The answer's head goes out with content that follows it at once, so that a small file is one message.
static bool send_body(uint64_t promised, const struct attributes *attributes, const uint8_t *content, size_t length) {
  uint8_t head[1024];
  struct packer packer = {.start = head, .max = sizeof head};
  encode_body(&packer, promised, attributes);
  return link_send_both(head, packer.length, content, length);
}

// Files that say they are empty and are not, as those of /proc: read whole before the answer can give a length.
static int read_unsized(int fd, const struct file_request *request, struct attributes *attributes) {
  size_t filled = 0;
  while (filled < BUFFER_BYTES) {
    ssize_t got = read(fd, buffer + filled, BUFFER_BYTES - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", errno);
    if (got == 0) break;
    filled += (size_t)got;
  }
  if (filled == BUFFER_BYTES) return failed("read", EFBIG);
  attributes->size = filled;
  size_t offset = request->offset < filled ? (size_t)request->offset : filled;
  size_t length = request->length < filled - offset ? (size_t)request->length : filled - offset;
  send_body(length, attributes, buffer + offset, length);
  return 0;
}

// Ends early, without the promised length, when the file shrinks or cannot be read: the host counts.
static void send_content(int fd, uint64_t offset, uint64_t length) {
  off_t at = (off_t)offset;
  while (length > 0) {
    size_t wanted = length < 1 << 30 ? (size_t)length : 1 << 30;
    ssize_t sent = sendfile(link_descriptor(), fd, &at, wanted);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EINVAL || errno == ENOSYS)) {
      sent = pread(fd, buffer, wanted < BUFFER_BYTES ? wanted : BUFFER_BYTES, at);
      if (sent > 0 && !link_send(buffer, (size_t)sent)) return;
      at += sent;
    }
    if (sent <= 0) return link_break();
    length -= (uint64_t)sent;
  }
}

// Of a small file the content is read before the head is sent.
static void send_small(int fd, uint64_t offset, uint64_t length, const struct attributes *attributes) {
  ssize_t got = length == 0 ? 0 : pread(fd, buffer, (size_t)length, (off_t)offset);
  if (got < 0) got = 0;
  if (send_body(length, attributes, buffer, (size_t)got)) send_content(fd, offset + (uint64_t)got, length - (uint64_t)got);
}

int transfer_read(const struct file_request *request) {
  struct stat status;
  int fd;
  int error = open_plain(request->path, &status, &fd);
  if (error != 0) return error;
  struct attributes attributes = describe(&status, request->path);
  if (status.st_size == 0) {
    error = read_unsized(fd, request, &attributes);
  } else {
    uint64_t size = attributes.size;
    uint64_t offset = request->offset < size ? request->offset : size;
    uint64_t length = request->length < size - offset ? request->length : size - offset;
    if (length <= SMALL_BYTES) send_small(fd, offset, length, &attributes);
    else if (send_body(length, &attributes, NULL, 0)) send_content(fd, offset, length);
  }
  close(fd);
  return error;
}

static int write_whole(int fd, const uint8_t *bytes, size_t length) {
  while (length > 0) {
    ssize_t written = write(fd, bytes, length);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes += written;
    length -= (size_t)written;
  }
  return 0;
}

// Writes what a received piece holds of the body; 0 or an errno.
static int write_piece(struct upload *upload, int fd, size_t length) {
  struct cursor piece = {.at = buffer, .left = length};
  const uint8_t *content;
  size_t content_length;
  enum upload_step step;
  while ((step = upload_next(upload, &piece, &content, &content_length)) == UPLOAD_CONTENT) {
    int error = write_whole(fd, content, content_length);
    if (error != 0) return failed("write", error);
  }
  return step == UPLOAD_BROKEN ? failed("request", EPROTO) : 0;
}

// Receives until the end frame; `aborted` when the host closed before it.
static int receive_body(int fd, bool *aborted) {
  struct upload upload = {0};
  while (!upload.ended) {
    ssize_t got = recv(link_descriptor(), buffer, BUFFER_BYTES, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      *aborted = true;
      return 0;
    }
    int error = write_piece(&upload, fd, (size_t)got);
    if (error != 0) return error;
  }
  return 0;
}

static int publish(struct publication *publication, const char *path) {
  struct stat status;
  int error = publish_finish(publication, &status);
  if (error != 0) {
    publish_abort(publication);
    return error;
  }
  struct attributes attributes = describe(&status, path);
  link_send_attributes(&attributes);
  return 0;
}

int transfer_write(const struct file_request *request) {
  static struct publication publication;
  int error = publish_begin(&publication, request->path, request->has_mode, request->mode);
  if (error != 0) return error;
  bool aborted = false;
  error = receive_body(publication.fd, &aborted);
  if (error == 0 && !aborted) return publish(&publication, request->path);
  publish_abort(&publication);
  return error;
}

static int append(int to, const char *source) {
  struct stat status;
  int fd;
  int error = open_plain(source, &status, &fd);
  if (error != 0) return error;
  error = copy_content(fd, to);
  close(fd);
  return error == 0 ? 0 : failed("copy", error);
}

// The published file may be one of its sources; that name stays.
static void remove_sources(const struct file_request *request, const struct stat *published) {
  struct cursor cursor = request->sources.texts;
  for (uint32_t i = 0; i < request->sources.count; i++) {
    const char *source = take_text(&cursor, PATH_TEXT_MAX);
    struct stat status;
    if (lstat(source, &status) != 0) continue;
    if (status.st_dev != published->st_dev || status.st_ino != published->st_ino) unlink(source);
  }
}

int transfer_concatenate(const struct file_request *request) {
  static struct publication publication;
  int error = publish_begin(&publication, request->path, request->has_mode, request->mode);
  if (error != 0) return error;
  struct cursor cursor = request->sources.texts;
  for (uint32_t i = 0; i < request->sources.count && error == 0; i++) {
    error = append(publication.fd, take_text(&cursor, PATH_TEXT_MAX));
  }
  struct stat status;
  if (error == 0) error = publish_finish(&publication, &status);
  if (error != 0) {
    publish_abort(&publication);
    return error;
  }
  remove_sources(request, &status);
  struct attributes attributes = describe(&status, request->path);
  link_send_attributes(&attributes);
  return 0;
}
