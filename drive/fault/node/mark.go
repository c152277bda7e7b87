package node

import (
	"fmt"
	"regexp"
	"strconv"
)

// prefix begins the names of our nf_tables tables.
const prefix = "meshtrial-"

// mark is the name of a table that this role creates in a pod's network namespace. A
// disturbance of packets is such a table with its rules. For a stopped process the table is
// empty: its name says what to repair. Tables vanish with the pod and need no volume, and a
// new server finds them without knowing the previous one.
type mark struct {
	Owner Process // the server that made it: PID and StartTicks
	Fault uint64  // the number of its fault
	// Stopped is a process to continue; PID 0: the table has rules.
	Stopped Process
}

func (m mark) String() string {
	name := fmt.Sprintf("%s%d-%d-%d", prefix, m.Owner.PID, m.Owner.StartTicks, m.Fault)
	if m.Stopped.PID != 0 {
		name += fmt.Sprintf("-stop-%d-%d", m.Stopped.PID, m.Stopped.StartTicks)
	}
	return name
}

var markName = regexp.MustCompile(`^` + prefix + `([0-9]{1,10})-([0-9]{1,20})-([0-9]{1,20})(?:-stop-([0-9]{1,10})-([0-9]{1,20}))?$`)

// parseMark parses the name of a table; false if it is not ours.
func parseMark(name string) (mark, bool) {
	fields := markName.FindStringSubmatch(name)
	if fields == nil {
		return mark{}, false
	}
	var numbers [5]uint64
	for i, field := range fields[1:] {
		if field == "" {
			continue
		}
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return mark{}, false
		}
		numbers[i] = n
	}
	m := mark{
		Owner:   Process{PID: int(numbers[0]), StartTicks: numbers[1]},
		Fault:   numbers[2],
		Stopped: Process{PID: int(numbers[3]), StartTicks: numbers[4]},
	}
	return m, m.Owner.PID > 0 && m.String() == name
}
