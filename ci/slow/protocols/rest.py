# SPDX-License-Identifier: GPL-2.0
"""A sampler looks at its triggers, rests, and is woken by alarms; one CPU, one state.

psi_watch_answer(), psi_sampler_check(), psi_sampler_may_rest()
    against psi_take_watched(), psi_raise_alarms()

Proved: while a sampler rests, the state does not hold, and all stall is in its
samples; or an alarm is raised. This is looked at when the walk is at rest and the monitor between two samples. States
may begin any number of times. Steps are in order here: watch.model and
alarm.model have those that a machine reorders.
"""
import collections

# @at: what the walk does next. @stall: there is some that no sample has
Walk = collections.namedtuple("Walk", "at state stall slow")
Alarm = collections.namedtuple("Alarm", "states begun inbox alarmed")
# @at: what the monitor does next. @may: the sampler may rest
Sampler = collections.namedtuple("Sampler", "at resting may")

BREAKS = AGAIN, HOLDS, ASKS, WATCHES = (
    "needed: a sampler that found no stall looks again once it asks for the alarm",
    "needed: a state that holds already keeps the sampler from resting",
    "needed: a sampler that is about to rest asks for the alarm",
    "needed: psi_watch_cells() has the walk report again")


def walk_moves(walk, alarm):
    if walk.at == "take":
        yield "psi_take_watched()", walk._replace(at="raise" if walk.slow else "", slow=0), alarm
    elif walk.at == "raise":
        yield ("psi_raise_alarms(): begun", walk._replace(at="queue" if alarm.states and not alarm.begun else ""),
               alarm._replace(begun=alarm.begun | alarm.states))
    elif walk.at == "queue":
        yield "psi_raise_alarms(): inbox", walk._replace(at=""), alarm._replace(inbox=1)
    elif walk.state:
        yield "the state holds for a while", walk._replace(stall=1), alarm
        yield "the state ends", walk._replace(state=0), alarm
    else:
        yield "the state begins", walk._replace(at="take", state=1, stall=1), alarm


def monitor_moves(walk, alarm, s, broken):
    if s.at == "answer":
        yield "psi_watch_answer(): samplers", walk, alarm._replace(states=0), s._replace(at="", resting=0)
    elif s.at == "ask":
        yield "psi_sampler_ask()", walk, alarm._replace(states=int(broken != ASKS)), s._replace(at="watch")
    elif s.at == "watch":
        yield ("psi_watch_cells()", walk._replace(slow=walk.slow | (broken != WATCHES)), alarm,
               s._replace(at="again", may=int(not walk.state or broken == HOLDS)))
    elif s.at == "again":
        if broken != AGAIN:
            s, walk = s._replace(may=s.may & (not walk.stall)), walk._replace(stall=0)
        yield "psi_sampler_update() again", walk, alarm, s._replace(at="done")
    elif s.at == "done":
        yield "psi_sampler_check(), an event is owed", walk, alarm, s._replace(at="")
        yield "psi_sampler_check()", walk, alarm, s._replace(at="", resting=s.may)
    elif alarm.inbox:
        yield "psi_monitor_collect()", walk, alarm._replace(inbox=0, alarmed=1), s
    elif alarm.alarmed:
        yield "psi_watch_answer(): begun", walk, alarm._replace(alarmed=0, begun=0), s._replace(at="answer")
    elif not s.resting:
        yield ("psi_sampler_update()", walk._replace(stall=0), alarm,
               s._replace(may=0, at="done" if walk.stall else "ask"))


class Model:
    def __init__(self, search):
        self.search = search
        self.breaks = dict(zip(BREAKS, BREAKS))

    def run(self, broken=""):
        def moves(state):
            walk, alarm, s = state
            found = [(f"walk     {name}", (w, a, s)) for name, w, a in walk_moves(walk, alarm)]
            return found + [(f"monitor  {name}", (w, a, n)) for name, w, a, n in monitor_moves(walk, alarm, s, broken)]

        def wrong(state, _):
            walk, alarm, s = state
            lost = s.resting and (walk.state or walk.stall) and not alarm.begun
            return lost and walk.at == s.at == "" and "the sampler rests, and nothing wakes it"

        return self.search([(Walk("", 0, 0, 0), Alarm(0, 0, 0, 0), Sampler("", 0, 0))], moves, wrong)
