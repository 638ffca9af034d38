// The init's power over files that are not readable for it: two capabilities in its effective set.
#include "privilege.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAP_OVERRIDE = 1, CAP_READ_SEARCH = 2, CAPABILITY_VERSION = 0x20080522 };

// As the kernel has them; the compiler's own headers do not.
struct capability_header {
  uint32_t version;
  int pid;
};

struct capability_words {
  uint32_t effective;
  uint32_t permitted;
  uint32_t inheritable;
};

void privilege_read_all(bool enabled) {
  const uint32_t bits = (1u << CAP_OVERRIDE) | (1u << CAP_READ_SEARCH);
  struct capability_header header = {.version = CAPABILITY_VERSION, .pid = 0};
  struct capability_words words[2];
  if (syscall(SYS_capget, &header, words) != 0) return;
  words[0].effective = enabled ? words[0].effective | (words[0].permitted & bits) : words[0].effective & ~bits;
  syscall(SYS_capset, &header, words);
}
