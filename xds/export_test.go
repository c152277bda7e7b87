package xds

import "time"

// LimitWarming sets how long an acknowledgement is held at most.
func (f *Fleet) LimitWarming(d time.Duration) { f.warmAfter.Store(int64(d)) }

// GiveBack does at once what the fleet does when all is quiet.
func (f *Fleet) GiveBack() { f.giveBack() }
