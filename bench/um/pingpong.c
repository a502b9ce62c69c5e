// SPDX-License-Identifier: GPL-2.0
/*
 * Two kernel threads that wake each other, in turns.
 *
 * A round trip is two wake-ups and two switches, without a system call and
 * without a switch of the address space, which are slow in User-Mode Linux and
 * no concern of the scheduler.  The CPU never idles.  The threads are
 * SCHED_BATCH: with the default policy some wake-ups ask for a switch at once, which
 * saves a read of the clock, and how many do changes from one second to the next.
 *
 * Write "BATCHES ROUNDS TWICE" to /proc/pingpong, and they do so many round trips
 * so many times, with clock_twice.  Read it, and there is
 *
 *	players PID PID clock COST		the threads; ps for a read of the clock
 *	batch NS SWITCHES READS			of each batch: host's time, context
 *						switches of both, reads of the clock
 */
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <uapi/linux/sched/types.h>
#include <linux/uaccess.h>
#include <os.h>

#include "clock.h"

#define MOST_BATCHES	1000

static struct batch {
	unsigned long ns, switches, reads;
} batches[MOST_BATCHES];

static DEFINE_MUTEX(game);		/* a game at a time */
static unsigned int nr_batches, nr_rounds;
static DECLARE_COMPLETION(begin);
static DECLARE_COMPLETION(end);

static struct task_struct *players[2];
static int turn;

static __always_inline void pass_to(int player)
{
	WRITE_ONCE(turn, player);
	wake_up_process(players[player]);
}

static __always_inline void wait_for_turn(int player)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (READ_ONCE(turn) == player)
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
}

static unsigned long switches(void)
{
	return players[0]->nvcsw + players[1]->nvcsw;
}

static void play(struct batch *batch)
{
	struct batch before = {
		.ns = os_nsecs(),
		.switches = switches(),
		.reads = clock_reads,
	};
	unsigned int i;

	for (i = 0; i < nr_rounds; i++) {
		pass_to(1);
		wait_for_turn(0);
	}
	batch->ns = os_nsecs() - before.ns;
	batch->switches = switches() - before.switches;
	batch->reads = clock_reads - before.reads;
}

static int server(void *unused)
{
	unsigned int i;

	for (;;) {
		wait_for_completion_interruptible(&begin);
		for (i = 0; i < nr_batches; i++)
			play(&batches[i]);
		complete(&end);
	}
	return 0;
}

static int receiver(void *unused)
{
	for (;;) {
		wait_for_turn(1);
		pass_to(0);
	}
	return 0;
}

static ssize_t game_write(struct file *file, const char __user *text,
			  size_t len, loff_t *pos)
{
	unsigned int wanted, rounds, twice;
	char buffer[32] = "";

	if (len >= sizeof(buffer) || copy_from_user(buffer, text, len))
		return -EFAULT;
	if (sscanf(buffer, "%u %u %u", &wanted, &rounds, &twice) != 3)
		return -EINVAL;
	if (!wanted || wanted > MOST_BATCHES || !rounds || twice > 1)
		return -EINVAL;

	mutex_lock(&game);
	nr_batches = wanted;
	nr_rounds = rounds;
	clock_twice = twice;
	complete(&begin);
	wait_for_completion(&end);
	mutex_unlock(&game);
	return len;
}

static int game_show(struct seq_file *m, void *unused)
{
	unsigned int i;

	mutex_lock(&game);
	seq_printf(m, "players %d %d clock %u\n", players[0]->pid, players[1]->pid, clock_cost);
	for (i = 0; i < nr_batches; i++)
		seq_printf(m, "batch %lu %lu %lu\n",
			   batches[i].ns, batches[i].switches, batches[i].reads);
	mutex_unlock(&game);
	return 0;
}

static int game_open(struct inode *inode, struct file *file)
{
	return single_open(file, game_show, NULL);
}

static const struct proc_ops game_ops = {
	.proc_open	= game_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_write	= game_write,
	.proc_release	= single_release,
};

static int __init pingpong_init(void)
{
	const struct sched_param param = {};
	unsigned int i;

	players[0] = kthread_create(server, NULL, "server");
	players[1] = kthread_create(receiver, NULL, "receiver");
	if (IS_ERR(players[0]) || IS_ERR(players[1]) ||
	    !proc_create("pingpong", 0600, NULL, &game_ops))
		panic("pingpong: no memory");
	for (i = 0; i < ARRAY_SIZE(players); i++)
		sched_setscheduler_nocheck(players[i], SCHED_BATCH, &param);
	wake_up_process(players[1]);
	wake_up_process(players[0]);
	return 0;
}
late_initcall(pingpong_init);
