// SPDX-License-Identifier: GPL-2.0
/* NFS with the client and the server in this machine: see psi_nfs.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <linux/nfsd/export.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psi_fs.h"
#include "psi_nfs.h"
#include "psi_util.h"

#define NFSD		"/proc/fs/nfsd"
#define CACHES		"/proc/net/rpc"
#define CLIENT		"psi"
/* The server takes no less. */
#define GRACE		(10 * NSEC_PER_SEC)
#define FOR_EVER	"2147483647"
#define NOBODY		"65534 65534"

static void loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request))
		psi_die("lo: %s", strerror(errno));
	close(fd);
}

/*
 * What mountd would answer to the questions of the server: which client has
 * this address, what may it mount, and which directory is number 0, which is
 * the root of NFS 4?
 */
static void export_root(const char *served)
{
	char text[128];

	write_file(CACHES "/auth.unix.ip/channel", "nfsd 127.0.0.1 " FOR_EVER " " CLIENT "\n");
	snprintf(text, sizeof(text), CLIENT " %s " FOR_EVER " %d " NOBODY " 0\n", served,
		 NFSEXP_INSECURE_PORT | NFSEXP_NOSUBTREECHECK | NFSEXP_FSID);
	write_file(CACHES "/nfsd.export/channel", text);
	snprintf(text, sizeof(text), CLIENT " 1 \\x00000000 " FOR_EVER " %s\n", served);
	write_file(CACHES "/nfsd.fh/channel", text);
}

static char file_letter(const char *path)
{
	char text[8];

	read_text(path, text, sizeof(text));
	return text[0];
}

static void serve(const char *served)
{
	if (mount("psi", NFSD, "nfsd", 0, NULL) && errno != EBUSY)
		psi_die(NFSD ": %s", strerror(errno));
	/* Version 3 would need rpcbind. */
	write_file(NFSD "/versions", "-3 +4\n");
	write_file(NFSD "/nfsv4gracetime", "10");
	export_root(served);
	write_file(NFSD "/portlist", "tcp 2049");
	write_file(NFSD "/threads", "2");
	/* Clients from before a crash could come back for so long. */
	while (file_letter(NFSD "/v4_end_grace") != 'Y')
		sleep_for(GRACE / 10);
}

void nfs_mount(const char *served, const char *where)
{
	loopback_up();
	serve(served);
	fs_mount("127.0.0.1:/", where, "nfs", "vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1");
}

void nfs_unmount(const char *where)
{
	fs_unmount(where);
	write_file(NFSD "/threads", "0");
}
