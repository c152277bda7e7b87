package labtest

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// interruptible are the labs that an interrupt of the tests takes down: no
// test's end comes then. A program that is starting one is interrupted along
// and cleans up itself.
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
		go func() { // as long as the tests
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
