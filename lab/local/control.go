package local

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// event is a line exchanged between an init and its starter, over a socket that init
// inherits as fdControl.
type event struct {
	Event string `json:"event"`
	Text  string `json:"text,omitempty"`
}

// Events. Up sends go when the namespaces are ready for init, and stay when init may
// outlive Up. A node's init also receives api.
const (
	eventGo     = "go"
	eventStay   = "stay"
	eventSay    = "say"    // progress for people
	eventAPI    = "api"    // the API answers
	eventUp     = "up"     // every component has been started
	eventFailed = "failed" // init ends
)

// controlPair makes such a socket. Our end is non-blocking, so it supports
// deadlines.
func controlPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	err = unix.SetNonblock(fds[0], true)
	ours, theirs = os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control of init")
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

func sendEvent(control *os.File, e event) error {
	data, err := json.Marshal(e)
	if err == nil {
		_, err = control.Write(append(data, '\n'))
	}
	return err
}

var errUnreadable = errors.New("the other side reported")

func readEvent(lines *bufio.Reader) (e event, err error) {
	line, err := lines.ReadBytes('\n')
	if err == nil {
		if err = json.Unmarshal(line, &e); err != nil {
			err = fmt.Errorf("%w %q: %w", errUnreadable, line, err)
		}
	}
	return e, err
}

// expect reads events until the wanted one arrives.
func expect(lines *bufio.Reader, want string) error {
	for {
		e, err := readEvent(lines)
		if err != nil || e.Event == want {
			return err
		}
	}
}
