// A process whose first thread has ended: /proc shows it as a zombie, but it
// works on, for a minute, whoever asks it to end.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void *work(void *unused) {
    FILE *file = fopen("pid", "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    sleep(60);
    _exit(0);
}

int main(void) {
    if (fork()) {
        sleep(60);
        return 0;
    }
    setsid();
    signal(SIGTERM, SIG_IGN);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_exit(NULL);
}
