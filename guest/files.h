// File operations that move no content. Each returns 0 after it has answered, or the errno to answer with.
#ifndef CATNAP_FILES_H
#define CATNAP_FILES_H

#include <sys/stat.h>

#include "messages.h"

int files_stat(const struct file_request *request);
int files_set_mode(const struct file_request *request);
int files_list(const struct file_request *request);
int files_make_directory(const struct file_request *request);
int files_remove(const struct file_request *request);

// The attributes of a file under a name, which is what follows the last slash.
struct attributes describe(const struct stat *status, const char *path);
// Makes the directories above the last segment of a path.
int make_parents(const char *path);
// Copies a path without slashes at its end.
int plain_path(const char *path, char plain[]);

#endif
