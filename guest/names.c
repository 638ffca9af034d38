// Looks up the name of an id in the text of a passwd or group file.
#include "names.h"

#include <string.h>

// The number at a text's beginning, followed by the end of its field; false for anything else, also for one of more than 32 bits.
static bool read_id(const char *text, uint32_t *id) {
  uint64_t value = 0;
  size_t digits = strspn(text, "0123456789");
  if (digits == 0 || digits > 10) return false;
  for (size_t i = 0; i < digits; i++) value = value * 10 + (uint64_t)(text[i] - '0');
  *id = (uint32_t)value;
  char end = text[digits];
  return value <= UINT32_MAX && (end == ':' || end == '\n' || end == 0);
}

// A line is `name:password:id:...`; a name too long to be believed is none.
static bool line_matches(const char *line, uint32_t id, size_t *name_length) {
  size_t length = strcspn(line, ":\n");
  if (line[length] != ':' || length == 0 || length > OWNER_TEXT_MAX) return false;
  const char *password = line + length + 1;
  size_t password_length = strcspn(password, ":\n");
  if (password[password_length] != ':') return false;
  uint32_t found;
  *name_length = length;
  return read_id(password + password_length + 1, &found) && found == id;
}

bool find_name(const char *text, uint32_t id, char name[OWNER_TEXT_MAX + 1]) {
  for (const char *line = text; *line != 0; line += *line == '\n') {
    size_t length;
    if (line_matches(line, id, &length)) {
      memcpy(name, line, length);
      name[length] = 0;
      return true;
    }
    line += strcspn(line, "\n");
  }
  return false;
}
