// Preloaded: whoever writes a long line to stderr hangs as long as there is a file "mute".
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

ssize_t write(int fd, const void *bytes, size_t length) {
    while (fd == 2 && length > 2000 && access("mute", F_OK) == 0) {
        usleep(1000);
    }
    return syscall(SYS_write, fd, bytes, length);
}
