/* The first program of an initrd that memqos makes itself: loads the modules that lie in /modules in the order of their
   names, mounts the root that the kernel's command line names (root=, rootfstype=, rootflags=), and becomes its /sbin/init. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINE 4096
#define WAIT_MICROSECONDS 10000
#define WAITS 3000 /* half a minute for the root's device */

/* The kernel panics when its first program ends, and QEMU ends with it. */
static void fail(const char *what, const char *which)
{
    fprintf(stderr, "memqos init: %s %s: %s\n", what, which, strerror(errno));
    exit(1);
}

/* The value of NAME= on the kernel's command line, "" if it is not there. */
static void argument(const char *line, const char *name, char *value)
{
    char words[LINE];
    strcpy(words, line);
    *value = 0;
    for (char *word = strtok(words, " \n"); word; word = strtok(NULL, " \n"))
        if (!strncmp(word, name, strlen(name)))
            strcpy(value, word + strlen(name));
}

static void load_modules(void)
{
    struct dirent **found;
    int count = scandir("/modules", &found, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char path[LINE];
        if (found[i]->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/modules/%s", found[i]->d_name);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || (syscall(SYS_finit_module, file, "", 0) && errno != EEXIST))
            fail("cannot load", path);
        close(file);
        unlink(path);
    }
}

static void mount_root(const char *line)
{
    char root[LINE], type[LINE], options[LINE];
    unsigned long flags = 0;
    argument(line, "root=", root);
    argument(line, "rootfstype=", type);
    argument(line, "rootflags=", options);
    /* A flag of its own for mount(2), and the only one that memqos's command line has. */
    if (!strcmp(options, "noatime")) {
        flags = MS_NOATIME;
        *options = 0;
    }
    for (int i = 0; access(root, F_OK) && i < WAITS; i++)
        usleep(WAIT_MICROSECONDS);
    if (mount(root, "/root", type, flags, options))
        fail("cannot mount", root);
}

int main(void)
{
    char line[LINE];
    if (mount("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755") || mount("proc", "/proc", "proc", 0, ""))
        fail("cannot mount", "/dev and /proc");
    int file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, line, sizeof line - 1);
    if (length < 0)
        fail("cannot read", "/proc/cmdline");
    line[length] = 0;
    close(file);
    load_modules();
    mount_root(line);
    if (mount("/dev", "/root/dev", NULL, MS_MOVE, NULL) || umount2("/proc", MNT_DETACH))
        fail("cannot move", "/dev");
    if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
        fail("cannot enter", "the root");
    execl("/sbin/init", "init", (char *)NULL);
    fail("cannot start", "/sbin/init");
}
