// Hands its work on again and again: each process begins a session of its own, starts the
// next one and ends. Whoever looks at it finds mostly dead. It takes its name, a pause in
// microseconds and how many processes there may be: the machine has only so many. While it
// works, there is the file of that name.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments) {
    if (fork() > 0) {
        return 0;
    }
    for (int left = atoi(arguments[3]); left > 0; left--) {
        setsid();
        if (fork() > 0) {
            _exit(0);
        }
        close(open(arguments[1], O_CREAT | O_WRONLY, 0600));
        usleep(atoi(arguments[2]));
    }
    return 0;
}
