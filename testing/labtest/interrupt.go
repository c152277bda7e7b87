package labtest

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// interruptible lists the labs to take down when the tests are interrupted,
// since a test's cleanup does not run then. A program that is starting a lab
// receives the interrupt too and cleans up itself.
type interruptible struct {
	once     sync.Once
	mu       sync.Mutex
	machines map[string]Machine // by XDG_STATE_HOME
}

var interrupts = interruptible{machines: map[string]Machine{}}

func (i *interruptible) note(m Machine) {
	i.mu.Lock()
	i.machines[m.home] = m
	i.mu.Unlock()
	i.once.Do(func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
		go func() { // ends with the tests
			<-signals
			i.mu.Lock()
			for _, m := range i.machines {
				if err := m.down(); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
			os.Exit(errs.CodeInterrupted)
		}()
	})
}

func (i *interruptible) forget(m Machine) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.machines, m.home)
}
