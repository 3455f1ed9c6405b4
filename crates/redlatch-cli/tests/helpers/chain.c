// A process in a session of its own that replaces itself again and again, for at most
// 15 s: whoever looks at it finds another process, or only dead ones. While it lives,
// there is the file that it is given.
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (fork() > 0) {
        return 0;
    }
    setsid();
    for (time_t end = time(NULL) + 15; time(NULL) < end; usleep(5000)) {
        if (fork() > 0) {
            _exit(0);
        }
        close(open(arguments[count - 1], O_CREAT | O_WRONLY, 0600));
    }
    return 0;
}
