// With the setuid bit: becomes root altogether, and works for a minute.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    if (setgid(0) || setuid(0)) {
        perror("become root");
        return 1;
    }
    FILE *file = fopen("pid", "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    sleep(60);
    return 0;
}
