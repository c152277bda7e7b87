package observe

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/pprof/profile"
	"github.com/meshmark/meshmark/record"
)

// Profiles that a Go server offers under /debug/pprof.
const (
	ProfileCPU   = "cpu"   // over some seconds
	ProfileMutex = "mutex" // time waited for locks, since the start
	ProfileBlock = "block" // time blocked, since the start
	ProfileHeap  = "heap"  // memory in use
)

// maxProfile bounds what is read of a profile, in bytes.
const maxProfile = 64 << 20

// FetchProfile takes a profile of a server, in pprof's own gzipped form. A CPU
// profile takes the seconds asked for, and costs the server about 100 samples
// a second; mutex and block profiles count from the server's start, so that
// the difference of two tells of a window ([ProfileSince]).
func FetchProfile(ctx context.Context, server Replica, kind string, length time.Duration) ([]byte, error) {
	path := "/debug/pprof/" + kind
	if kind == ProfileCPU {
		path = fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, int(length.Round(time.Second).Seconds())))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.url(path), nil)
	if err != nil {
		return nil, err
	}
	answer, err := server.HTTP.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, server.Name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, &StatusError{Code: answer.StatusCode, What: kind + " profile of " + server.Name}
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxProfile+1))
	if err != nil {
		return nil, fmt.Errorf("%s profile of %s: %w", kind, server.Name, err)
	}
	if len(data) > maxProfile {
		return nil, fmt.Errorf("%s profile of %s: more than %d MiB", kind, server.Name, maxProfile>>20)
	}
	return data, nil
}

// Stacks is a profile as stacks with weights: the root first.
type Stacks struct {
	Unit  string // nanoseconds, bytes, count
	Total int64
	Stack []Stack
}

// Stack is one way that the program was found, and its share.
type Stack struct {
	Frames []string // functions, the outermost first
	Value  int64
}

// ParseProfile reads a profile in pprof's form. Of several values it takes the
// last, which is time for CPU, mutex and block profiles.
func ParseProfile(data []byte) (Stacks, error) {
	p, err := parseProfile(data)
	if err != nil {
		return Stacks{}, err
	}
	return stacksOf(p)
}

// parseProfile guards the library's parser, which was not made for garbage.
func parseProfile(data []byte) (p *profile.Profile, err error) {
	defer func() {
		if broken := recover(); broken != nil {
			p, err = nil, fmt.Errorf("profile: not in pprof's form: %v", broken)
		}
	}()
	if p, err = profile.Parse(bytes.NewReader(data)); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return p, nil
}

func stacksOf(p *profile.Profile) (Stacks, error) {
	if len(p.SampleType) == 0 {
		return Stacks{}, fmt.Errorf("profile: it says not what it counts")
	}
	which := len(p.SampleType) - 1
	out := Stacks{Unit: p.SampleType[which].Unit}
	merged := map[string]*Stack{}
	for _, sample := range p.Sample {
		if which >= len(sample.Value) || sample.Value[which] <= 0 {
			continue
		}
		frames := framesOf(sample)
		key := strings.Join(frames, "\x00")
		if merged[key] == nil {
			merged[key] = &Stack{Frames: frames}
		}
		merged[key].Value += sample.Value[which]
		out.Total += sample.Value[which]
	}
	for _, stack := range merged {
		out.Stack = append(out.Stack, *stack)
	}
	slices.SortFunc(out.Stack, func(a, b Stack) int { return slices.Compare(a.Frames, b.Frames) })
	return out, nil
}

// framesOf turns a sample's locations, innermost first and each with the
// functions inlined into it, around.
func framesOf(sample *profile.Sample) []string {
	var frames []string
	for _, location := range slices.Backward(sample.Location) {
		if len(location.Line) == 0 {
			frames = append(frames, fmt.Sprintf("0x%x", location.Address))
		}
		for _, line := range slices.Backward(location.Line) {
			name := "unknown"
			if line.Function != nil && line.Function.Name != "" {
				name = line.Function.Name
			}
			frames = append(frames, name)
		}
	}
	if len(frames) == 0 {
		frames = []string{"unknown"}
	}
	return frames
}

// ProfileSince is what a profile that counts from the server's start gained
// between two takings. The error wraps [ErrReset] where it lost something.
func ProfileSince(before, after []byte) (Stacks, error) {
	a, err := ParseProfile(before)
	if err != nil {
		return Stacks{}, err
	}
	b, err := ParseProfile(after)
	if err != nil {
		return Stacks{}, err
	}
	if a.Unit != b.Unit {
		return Stacks{}, fmt.Errorf("profiles of %s and of %s cannot be compared", a.Unit, b.Unit)
	}
	if b.Total < a.Total {
		return Stacks{}, fmt.Errorf("profile: %w", ErrReset)
	}
	had := map[string]int64{}
	for _, s := range a.Stack {
		had[strings.Join(s.Frames, "\x00")] = s.Value
	}
	out := Stacks{Unit: b.Unit}
	for _, s := range b.Stack {
		if s.Value -= had[strings.Join(s.Frames, "\x00")]; s.Value > 0 {
			out.Stack = append(out.Stack, s)
			out.Total += s.Value
		}
	}
	return out, nil
}

// Top lists functions by what they cost themselves, the dearest first.
func (s Stacks) Top(n int) []record.ProfileCost {
	return s.top(n, func(c record.ProfileCost) int64 { return c.Flat })
}

// TopCumulative lists functions by what they cost with all they call.
func (s Stacks) TopCumulative(n int) []record.ProfileCost {
	return s.top(n, func(c record.ProfileCost) int64 { return c.Cumulative })
}

func (s Stacks) top(n int, by func(record.ProfileCost) int64) []record.ProfileCost {
	costs := map[string]*record.ProfileCost{}
	for _, stack := range s.Stack {
		counted := map[string]bool{}
		for i, frame := range stack.Frames {
			c := costs[frame]
			if c == nil {
				c = &record.ProfileCost{Function: frame}
				costs[frame] = c
			}
			if !counted[frame] { // once, also where it calls itself
				c.Cumulative += stack.Value
				counted[frame] = true
			}
			if i == len(stack.Frames)-1 {
				c.Flat += stack.Value
			}
		}
	}
	out := make([]record.ProfileCost, 0, len(costs))
	for _, c := range costs {
		out = append(out, *c)
	}
	sort.Slice(out, func(i, j int) bool {
		if by(out[i]) != by(out[j]) {
			return by(out[i]) > by(out[j])
		}
		return out[i].Function < out[j].Function
	})
	return out[:min(n, len(out))]
}
