// SPDX-License-Identifier: GPL-2.0
/* File systems on slow disks, and one with a slow server: see psi_fs.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psi_fs.h"
#include "psi_util.h"

/* ---- On disks ---- */

static bool copy_blocks(const char *from, const char *node)
{
	static struct {
		__u64 pos;
		char data[BLOCK];
	} block;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	int out;

	if (in < 0)
		return false;
	out = open_file(node, O_WRONLY);
	/* The header. */
	if (read(in, block.data, BLOCK) != BLOCK)
		psi_die("%s: too short", from);
	while (read(in, &block, sizeof(block)) == sizeof(block))
		if (pwrite(out, block.data, BLOCK, block.pos) != BLOCK)
			psi_die("%s: %s", node, strerror(errno));
	if (fsync(out))
		psi_die("%s: %s", node, strerror(errno));
	close(out);
	close(in);
	return true;
}

bool fs_make(const char *node, const char *type)
{
	char text[128];

	snprintf(text, sizeof(text), "%s.blocks", type);
	if (copy_blocks(text, node))
		return true;
	snprintf(text, sizeof(text), "mkfs.%s -q %s >&2", type, node);
	return !system(text);
}

int fs_size_mb(const char *type)
{
	char path[32], text[16];
	ssize_t size;

	snprintf(path, sizeof(path), "%s.blocks", type);
	size = read_file(path, text, sizeof(text));
	return size > 0 ? atoi(text) : 512;
}

void fs_mount(const char *what, const char *where, const char *type, const char *options)
{
	if (mkdir(where, 0755) && errno != EEXIST)
		psi_die("%s: %s", where, strerror(errno));
	if (mount(what, where, type, 0, options))
		psi_die("mount %s %s: %s", type, where, strerror(errno));
}

void fs_unmount(const char *where)
{
	if (umount(where))
		psi_die("umount %s: %s", where, strerror(errno));
}

void fs_drop_caches(void)
{
	write_file("/proc/sys/vm/drop_caches", "3");
}

/* ---- With a server: FUSE, and CUSE ---- */

#define ROOT_NODE	1
#define FIRST_FILE	2
#define FILE_SIZE	0x10000000000ULL
#define BUFFER		262144

/**
 * struct answer - what the server says to a request
 * @out: the header
 * @body: what follows
 */
struct answer {
	struct fuse_out_header out;
	char body[BUFFER];
};

static void fill_attr(struct fuse_attr *attr, __u64 node)
{
	attr->ino = node;
	attr->mode = node == ROOT_NODE ? S_IFDIR | 0755 : S_IFREG | 0644;
	attr->nlink = 1;
	attr->size = node == ROOT_NODE ? 0 : FILE_SIZE;
}

static int answer_init(const void *arg, void *body)
{
	const struct fuse_init_in *in = arg;
	struct fuse_init_out *out = body;

	out->major = FUSE_KERNEL_VERSION;
	out->minor = in->minor < FUSE_KERNEL_MINOR_VERSION ? in->minor : FUSE_KERNEL_MINOR_VERSION;
	out->flags = FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_POSIX_LOCKS;
	out->max_write = BLOCK;
	out->max_background = 16;
	return sizeof(*out);
}

static int answer_cuse_init(const struct cuse_init_in *in, struct cuse_init_out *out)
{
	static const char info[] = "DEVNAME=" CUSE_NAME;

	out->major = in->major;
	out->minor = in->minor;
	memcpy(out + 1, info, sizeof(info));
	return sizeof(*out) + sizeof(info);
}

static void fill_entry(struct fuse_entry_out *out, const char *name)
{
	out->nodeid = FIRST_FILE + atoi(name + 1);
	fill_attr(&out->attr, out->nodeid);
}

static int answer_readdir(const struct fuse_read_in *in, char *body)
{
	struct fuse_dirent *dirent = (struct fuse_dirent *)body;

	if (in->offset)
		return 0;
	dirent->ino = FIRST_FILE;
	dirent->off = 1;
	dirent->namelen = 2;
	dirent->type = DT_REG;
	memcpy(dirent->name, "f0", 2);
	return FUSE_DIRENT_SIZE(dirent);
}

/* Returns the size of the answer, or an error. */
static int answer_to(const struct fuse_in_header *in, void *body, bool direct)
{
	const void *arg = in + 1;
	struct fuse_create_in *create;

	switch (in->opcode) {
	case FUSE_INIT:
		return answer_init(arg, body);
	case CUSE_INIT:
		return answer_cuse_init(arg, body);
	case FUSE_LOOKUP:
		fill_entry(body, arg);
		return sizeof(struct fuse_entry_out);
	case FUSE_CREATE:
		fill_entry(body, arg + sizeof(*create));
		return sizeof(struct fuse_entry_out) + sizeof(struct fuse_open_out);
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		fill_attr(&((struct fuse_attr_out *)body)->attr, in->nodeid);
		return sizeof(struct fuse_attr_out);
	case FUSE_OPEN:
		((struct fuse_open_out *)body)->open_flags = direct ? FOPEN_DIRECT_IO : 0;
		return sizeof(struct fuse_open_out);
	case FUSE_OPENDIR:
		return sizeof(struct fuse_open_out);
	case FUSE_READ:
		return ((const struct fuse_read_in *)arg)->size;
	case FUSE_READDIR:
		return answer_readdir(arg, body);
	case FUSE_WRITE:
		((struct fuse_write_out *)body)->size = ((const struct fuse_write_in *)arg)->size;
		return sizeof(struct fuse_write_out);
	case FUSE_GETXATTR:
		/* Each write asks for one of security: the kernel asks once. */
		return strncmp(arg + sizeof(struct fuse_getxattr_in), "user.", 5) ? -ENOSYS : 1;
	case FUSE_SETLKW:
		sleep_for(SLOW_LOCK);
		return 0;
	case FUSE_SETXATTR:
	case FUSE_FSYNC:
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_UNLINK:
		return 0;
	default:
		return -ENOSYS;
	}
}

static void serve_one(int fd, __u64 latency, bool direct)
{
	static char request[BUFFER];
	static struct answer answer;
	const struct fuse_in_header *in = (void *)request;
	int size;

	if (read(fd, request, sizeof(request)) < 0) {
		if (errno == ENODEV)
			_exit(0);
		return;
	}
	if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
	    in->opcode == FUSE_INTERRUPT)
		return;
	if (in->opcode != FUSE_INIT)
		sleep_for(latency);
	memset(&answer, 0, sizeof(answer.out) + BLOCK);
	size = answer_to(in, answer.body, direct);
	answer.out.unique = in->unique;
	answer.out.error = size < 0 ? size : 0;
	answer.out.len = sizeof(answer.out) + (size < 0 ? 0 : size);
	if (write(fd, &answer, answer.out.len) < 0 && errno != ENOENT)
		psi_die("FUSE: answer to %u: %s", in->opcode, strerror(errno));
}

static void __noreturn serve(int fd, __u64 latency, bool direct)
{
	for (;;)
		serve_one(fd, latency, direct);
}

void slow_server_start(struct slow_server *server, const char *where, __u64 latency, bool direct)
{
	char options[96];

	server->fd = open_file("/dev/fuse", O_RDWR);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", server->fd);
	fs_mount("psi", where, "fuse", options);
	server->pid = fork_or_die();
	if (!server->pid)
		serve(server->fd, latency, direct);
}

void slow_server_start_cuse(struct slow_server *server, __u64 latency)
{
	server->fd = open_file("/dev/cuse", O_RDWR);
	/* The device is there when its name is told. */
	serve_one(server->fd, 0, false);
	server->pid = fork_or_die();
	if (!server->pid)
		serve(server->fd, latency, false);
}

/* ---- The same by 9p (9P2000.L) ---- */

#define P9_HEADER	7
#define P9_NR_FIDS	1024
#define P9_SIZE		(BLOCK * 4)

/* Types of requests. An answer has the next number. */
enum {
	P9_RLERROR = 7, P9_LOPEN = 12, P9_LCREATE = 14, P9_GETATTR = 24, P9_SETATTR = 26,
	P9_READDIR = 40, P9_FSYNC = 50, P9_UNLINKAT = 76, P9_VERSION = 100, P9_ATTACH = 104,
	P9_FLUSH = 108, P9_WALK = 110, P9_READ = 116, P9_WRITE = 118, P9_CLUNK = 120,
};

static char *put(char *at, __u64 value, int bytes)
{
	memcpy(at, &value, bytes);
	return at + bytes;
}

static __u64 get(const char *at, int bytes)
{
	__u64 value = 0;

	memcpy(&value, at, bytes);
	return value;
}

/* What the server calls a qid. */
static char *put_node(char *at, __u64 node)
{
	at = put(at, node == ROOT_NODE ? 0x80 : 0, 1);
	return put(put(at, 0, 4), node, 8);
}

static char *put_attr(char *at, __u64 node)
{
	at = put_node(put(at, 0x7ff, 8), node);
	at = put(at, node == ROOT_NODE ? S_IFDIR | 0755 : S_IFREG | 0644, 4);
	at = put(put(at, 0, 8), 1, 8);
	at = put(put(at, 0, 8), node == ROOT_NODE ? 0 : FILE_SIZE, 8);
	at = put(at, BLOCK, 8);
	memset(at, 0, 88);
	return at + 88;
}

/*
 * Fills in the answer after its header; returns its end, or %NULL for an error.
 */
static char *answer_9p(const char *request, char *at)
{
	static __u64 nodes[P9_NR_FIDS];
	const char *body = request + P9_HEADER, *name;
	__u64 *node = &nodes[get(body, 4) % P9_NR_FIDS];
	int names;

	switch ((unsigned char)request[4]) {
	case P9_VERSION:
		at = put(put(at, P9_SIZE, 4), 8, 2);
		memcpy(at, "9P2000.L", 8);
		return at + 8;
	case P9_ATTACH:
		*node = ROOT_NODE;
		return put_node(at, *node);
	case P9_WALK:
		names = get(body + 8, 2);
		name = body + 10;
		nodes[get(body + 4, 4) % P9_NR_FIDS] = names ? FIRST_FILE + atoi(name + 3) : *node;
		at = put(at, names, 2);
		return names ? put_node(at, FIRST_FILE + atoi(name + 3)) : at;
	case P9_LCREATE:
		*node = FIRST_FILE + atoi(body + 7);
		return put(put_node(at, *node), 0, 4);
	case P9_LOPEN:
		return put(put_node(at, *node), 0, 4);
	case P9_GETATTR:
		return put_attr(at, *node);
	case P9_READ:
		at = put(at, get(body + 12, 4), 4);
		memset(at, 0, get(body + 12, 4));
		return at + get(body + 12, 4);
	case P9_WRITE:
		return put(at, get(body + 12, 4), 4);
	case P9_READDIR:
		if (get(body + 4, 8))
			return put(at, 0, 4);
		at = put(put_node(put(at, 13 + 8 + 1 + 2 + 2, 4), FIRST_FILE), 1, 8);
		at = put(put(at, DT_REG, 1), 2, 2);
		memcpy(at, "f0", 2);
		return at + 2;
	case P9_SETATTR:
	case P9_FSYNC:
	case P9_UNLINKAT:
	case P9_FLUSH:
	case P9_CLUNK:
		return at;
	default:
		return NULL;
	}
}

static void read_all(int fd, char *to, size_t size)
{
	while (size) {
		ssize_t got = read(fd, to, size);

		if (got <= 0)
			_exit(0);
		to += got;
		size -= got;
	}
}

static void __noreturn serve_9p(int fd, __u64 latency)
{
	/* With a zero behind it: names end with the request. */
	static char request[P9_SIZE + 1], answer[P9_SIZE + BLOCK];
	char *end;
	__u32 size;

	for (;;) {
		read_all(fd, request, P9_HEADER);
		size = get(request, 4);
		if (size > P9_SIZE)
			psi_die("9p: a request of %u bytes", size);
		read_all(fd, request + P9_HEADER, size - P9_HEADER);
		request[size] = '\0';
		sleep_for(latency);
		answer[4] = request[4] + 1;
		memcpy(answer + 5, request + 5, 2);
		end = answer_9p(request, answer + P9_HEADER);
		if (!end) {
			answer[4] = P9_RLERROR;
			end = put(answer + P9_HEADER, EOPNOTSUPP, 4);
		}
		put(answer, end - answer, 4);
		if (write(fd, answer, end - answer) != end - answer)
			psi_die("9p: %s", strerror(errno));
	}
}

void slow_server_start_9p(struct slow_server *server, const char *where, __u64 latency,
			  const char *cache)
{
	char options[128];
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		psi_die("socketpair: %s", strerror(errno));
	server->pid = fork_or_die();
	if (!server->pid)
		serve_9p(ends[1], latency);
	close(ends[1]);
	server->fd = ends[0];
	snprintf(options, sizeof(options),
		 "trans=fd,rfdno=%d,wfdno=%d,version=9p2000.L,msize=%d,cache=%s", ends[0], ends[0],
		 P9_SIZE, cache);
	fs_mount("psi", where, "9p", options);
}

void slow_server_stop(const struct slow_server *server, const char *where)
{
	if (where && umount2(where, MNT_DETACH))
		psi_die("umount %s: %s", where, strerror(errno));
	load_stop(server->pid);
	close(server->fd);
}
