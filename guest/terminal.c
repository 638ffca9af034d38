// Pseudo-terminals for processes, from the sandbox's own devpts.
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static int pts_fd = -1;

void terminal_prepare(void) { pts_fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC); }

void terminal_save(struct state_writer *writer) { state_put_fd(writer, pts_fd); }

bool terminal_load(struct state_reader *reader) {
  pts_fd = state_take_fd(reader);
  return !reader->cursor.bad;
}

static bool fail(int own_side) {
  int error = errno;
  if (own_side >= 0) close(own_side);
  errno = error;
  return false;
}

bool terminal_open(uint16_t columns, uint16_t rows, int *own_side, int *program_side) {
  errno = ENODEV;
  if (pts_fd < 0) return false;
  int own = openat(pts_fd, "ptmx", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (own < 0) return false;
  int unlocked = 0;
  struct winsize size = {.ws_col = columns, .ws_row = rows};
  if (ioctl(own, TIOCSPTLCK, &unlocked) != 0 || ioctl(own, TIOCSWINSZ, &size) != 0) return fail(own);
  // By descriptor, not by its name in a directory that anybody inside may change.
  int program = ioctl(own, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (program < 0) return fail(own);
  struct termios settings;
  if (tcgetattr(program, &settings) == 0) {
    // The kernel's line editing erases whole characters.
    settings.c_iflag |= IUTF8;
    tcsetattr(program, TCSANOW, &settings);
  }
  *own_side = own;
  *program_side = program;
  return true;
}

bool terminal_control(int program_side) { return ioctl(program_side, TIOCSCTTY, 0) == 0; }
