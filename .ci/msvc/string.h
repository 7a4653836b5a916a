/* SPDX-License-Identifier: Apache-2.0 */
/* The C functions that csrc/ calls, declared for clang without the Windows headers. */
#include <stddef.h>

void *memchr(const void *, int, size_t);
int memcmp(const void *, const void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int strcmp(const char *, const char *);
