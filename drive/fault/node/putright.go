package node

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// putRight finds the marks of dead servers in every network namespace of the node, continues
// the processes that they name, and removes them.
func (s *Server) putRight() error {
	all, err := s.processes.namespaces()
	if err != nil {
		return err
	}
	defer func() {
		for _, ns := range all {
			ns.Close()
		}
	}()
	var failed []error
	for _, ns := range all {
		found, err := marks(ns)
		if err != nil {
			// If its kernel has no packet filters, the node has no marks.
			if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EPROTONOSUPPORT) && !errors.Is(err, unix.EINVAL) {
				failed = append(failed, err)
			}
			continue
		}
		var done []string
		for _, m := range found {
			owner := s.processes.look([]Process{m.Owner})[0].State
			if slices.Contains(done, m.String()) || owner != Gone && owner != "Z" {
				continue // already done for another family, or the server lives
			}
			done = append(done, m.String())
			failed = append(failed, s.putRightOne(ns, m))
		}
	}
	return errors.Join(failed...)
}

func (s *Server) putRightOne(ns *namespace, m mark) error {
	if m.Stopped.PID != 0 {
		reached, err := s.processes.signal([]Process{m.Stopped}, unix.SIGCONT)
		if err != nil {
			return err // the mark stays for the next attempt
		}
		s.options.Log.Warn("an earlier server left a process paused", "pid", m.Stopped.PID, "continued", len(reached) > 0)
	} else {
		s.options.Log.Warn("an earlier server left packets disturbed", "table", m.String())
	}
	if err := removeTable(ns, m.String()); err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	return nil
}
