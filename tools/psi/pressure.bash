# SPDX-License-Identifier: GPL-2.0
# Completion of pressure(1) for bash.

_pressure()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i verb=show
	local verbs='show run top wait on pace record replay why simulate doctor export help'

	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--)	# What follows is a command of its own.
			declare -F _command_offset >/dev/null && _command_offset $((i + 1))
			return ;;
		-*) ;;
		*) [[ $i -gt 1 ]] || verb=${COMP_WORDS[i]} ;;
		esac
	done
	if [[ $COMP_CWORD -eq 1 && $word != -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
		return
	fi
	# A flag; that of pace has a value.
	[[ $verb$before != why--cpu ]] || before=
	case $before in
	--html|--output|--record)
		# A directory ends with a slash, and a blank is quoted.
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return ;;
	--resource|--stall) mapfile -t COMPREPLY < <(compgen -W 'cpu memory io' -- "$word"); return ;;
	--style) mapfile -t COMPREPLY < <(compgen -W 'fifo pipe' -- "$word"); return ;;
	--sort) mapfile -t COMPREPLY < <(compgen -W 'worst cpu memory io own others limit name' -- "$word"); return ;;
	--beside) mapfile -t COMPREPLY < <(compgen -W 'node_exporter cadvisor' -- "$word"); return ;;
	--match|--filter|--leave|--time|--interval|--count|--below|--for|--timeout|--every|--cgroup|--jobs|--cpu|--memory|--io|--since|--until|--step|--size|--sync) return ;;
	esac
	case $verb in
	show) verbs='--time --record --since --until' ;;
	why) verbs='--time --cpu --record --since --until' ;;
	record) verbs='--record --every --size --sync --count --plain' ;;
	replay) verbs='--record --since --until --step' ;;
	run) verbs='--html --output' ;;
	top) verbs='--interval --count --sort --filter --tree --record --since --until' ;;
	wait) verbs='--below --for --timeout --cgroup --record --since --until' ;;
	pace) verbs='--jobs --cpu --memory --io --cgroup --style --output' ;;
	on) verbs='--cgroup --leave --count --timeout --resource --anywhere --output --record --since --until' ;;
	simulate) verbs='--resource --every --count --socket --stall --time' ;;
	export) verbs='--cgroup --match --beside --record --since --until' ;;
	doctor) verbs='--record --since --until' ;;
	*) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$verbs --json --help" -- "$word")
}

complete -F _pressure pressure
