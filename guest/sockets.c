// Reads /proc: which sockets there are from the tables of the protocols, who holds each from the descriptors of the processes.
#include "sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "entries.h"
#include "items.h"
#include "link.h"

enum { SOCKETS_MAX = 8192, TASKS_MAX = 8192, ANCESTORS_MAX = 512, TASK_NAME_MAX = 64 };

struct socket {
  uint64_t inode;
  struct socket_item item;
};

struct task {
  uint32_t pid;
  uint32_t parent;
  uint32_t session;
  char name[TASK_NAME_MAX];
};

static struct socket sockets[SOCKETS_MAX];
static size_t socket_count;
static struct task tasks[TASKS_MAX];
static size_t task_count;

static bool parse_address(const char *text, unsigned words, struct socket_address *address) {
  for (unsigned word = 0; word < words; word++) {
    uint32_t value;
    if (sscanf(text + 8 * word, "%8" SCNx32, &value) != 1) return false;
    memcpy(address->bytes + 4 * word, &value, 4);
  }
  return sscanf(text + 8 * words, ":%4" SCNx32, &address->port) == 1;
}

static void read_table(const char *path, uint8_t protocol, uint8_t family) {
  FILE *table = fopen(path, "re");
  if (table == NULL) return;
  char line[512];
  unsigned words = family == 6 ? 4 : 1;
  while (fgets(line, sizeof line, table) != NULL && socket_count < SOCKETS_MAX) {
    char local[64], remote[64];
    unsigned state;
    struct socket socket = {.item = {.protocol = protocol, .family = family}};
    struct socket_item *item = &socket.item;
    int fields = sscanf(line, " %*[0-9]: %63s %63s %2x %*s %*s %*s %*u %*u %" SCNu64, local, remote, &state, &socket.inode);
    if (fields != 4) continue;
    item->state = (uint8_t)state;
    if (parse_address(local, words, &item->local) && parse_address(remote, words, &item->remote)) {
      sockets[socket_count++] = socket;
    }
  }
  fclose(table);
}

static int compare_inodes(const void *left, const void *right) {
  uint64_t a = ((const struct socket *)left)->inode, b = ((const struct socket *)right)->inode;
  return a < b ? -1 : a > b;
}

static struct socket *find_socket(uint64_t inode) {
  struct socket wanted = {.inode = inode};
  return bsearch(&wanted, sockets, socket_count, sizeof *sockets, compare_inodes);
}

// The name may contain anything, so it is what stands between the first and the last parenthesis.
static bool read_task(uint32_t pid, struct task *task) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  if (got <= 0) return false;
  text[got] = 0;
  char *begin = strchr(text, '(');
  char *end = strrchr(text, ')');
  *task = (struct task){.pid = pid};
  if (begin == NULL || end == NULL || end < begin) return false;
  if (sscanf(end + 1, " %*c %" SCNu32 " %*d %" SCNu32, &task->parent, &task->session) != 2) return false;
  size_t length = (size_t)(end - begin - 1);
  if (length >= TASK_NAME_MAX) length = TASK_NAME_MAX - 1;
  memcpy(task->name, begin + 1, length);
  return true;
}

static void read_tasks(void) {
  static struct entries entries;
  entries.directory = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (entries.directory < 0) return;
  const char *name;
  while ((name = entries_next(&entries)) != NULL && task_count < TASKS_MAX && !link_abandoned()) {
    char *end;
    unsigned long pid = strtoul(name, &end, 10);
    if (*end != 0 || pid == 0 || pid > INT32_MAX) continue;
    if (read_task((uint32_t)pid, &tasks[task_count])) task_count++;
  }
  close(entries.directory);
}

static int compare_pids(const void *left, const void *right) {
  uint32_t a = ((const struct task *)left)->pid, b = ((const struct task *)right)->pid;
  return a < b ? -1 : a > b;
}

static const struct task *find_task(uint32_t pid) {
  struct task wanted = {.pid = pid};
  return bsearch(&wanted, tasks, task_count, sizeof *tasks, compare_pids);
}

// Its session follows what its parents no longer do: a program that went to the background.
static bool belongs_to(const struct task *task, uint32_t root) {
  for (unsigned steps = 0; task != NULL && steps < ANCESTORS_MAX; steps++) {
    if (task->pid == root || task->session == root) return true;
    task = task->parent == 0 ? NULL : find_task(task->parent);
  }
  return false;
}

// The first process that is found to hold a socket stands for it: the others inherited it.
static void attribute_sockets(uint32_t pid) {
  static struct entries entries;
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd", pid);
  memset(&entries, 0, sizeof entries);
  entries.directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (entries.directory < 0) return;
  const char *name;
  while ((name = entries_next(&entries)) != NULL && !link_abandoned()) {
    char target[64];
    ssize_t length = readlinkat(entries.directory, name, target, sizeof target - 1);
    if (length <= 0) continue;
    target[length] = 0;
    uint64_t inode;
    if (sscanf(target, "socket:[%" SCNu64 "]", &inode) != 1) continue;
    struct socket *socket = find_socket(inode);
    if (socket != NULL && socket->item.pid == 0) socket->item.pid = pid;
  }
  close(entries.directory);
}

int sockets_serve(const struct file_request *request) {
  static struct items items;
  items.type = FRAME_SOCKET_LIST;
  read_table("/proc/net/tcp", PROTOCOL_TCP, 4);
  read_table("/proc/net/tcp6", PROTOCOL_TCP, 6);
  read_table("/proc/net/udp", PROTOCOL_UDP, 4);
  read_table("/proc/net/udp6", PROTOCOL_UDP, 6);
  qsort(sockets, socket_count, sizeof *sockets, compare_inodes);
  read_tasks();
  qsort(tasks, task_count, sizeof *tasks, compare_pids);
  for (size_t i = 0; i < task_count && !link_abandoned(); i++) {
    if (request->pid == 0 || belongs_to(&tasks[i], request->pid)) attribute_sockets(tasks[i].pid);
  }
  for (size_t i = 0; i < socket_count; i++) {
    struct socket_item *socket = &sockets[i].item;
    if (request->pid != 0 && socket->pid == 0) continue;
    const struct task *task = socket->pid == 0 ? NULL : find_task(socket->pid);
    socket->process_name = task == NULL ? "" : task->name;
    uint8_t bytes[256];
    struct packer item = {.start = bytes, .max = sizeof bytes};
    put_socket(&item, socket);
    if (!items_add(&items, &item)) return 0;
  }
  if (items_flush(&items)) link_send_done();
  return 0;
}
