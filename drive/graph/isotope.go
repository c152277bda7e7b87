package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/study/protocol"
)

// MaxFile limits the bytes of a graph's file.
const MaxFile = 1 << 20

// Isotope is a service graph as istio/tools' isotope describes it.
type Isotope struct {
	Graph Graph
	// Entries are the services marked isEntrypoint.
	Entries []string
}

// isotopeFields are the fields that defaults and services share.
type isotopeFields struct {
	Type         string          `json:"type"` // http or grpc
	Replicas     int             `json:"numReplicas"`
	ErrorRate    scalar          `json:"errorRate"` // 0.1% or 0.001
	ResponseSize scalar          `json:"responseSize"`
	RequestSize  scalar          `json:"requestSize"` // of defaults alone
	Script       json.RawMessage `json:"script"`
}

type isotopeService struct {
	isotopeFields
	Name  string `json:"name"`
	Entry bool   `json:"isEntrypoint"`
}

// isotopeCommand is an entry of a script: one of its fields is set.
type isotopeCommand struct {
	Sleep string       `json:"sleep"`
	Call  *isotopeCall `json:"call"`
}

// isotopeCall is a service's name, or a mapping.
type isotopeCall struct {
	Service     string `json:"service"`
	Size        scalar `json:"size"`
	Probability int    `json:"probability"` // percent; 0 is always, as if it were not set
}

func (c *isotopeCall) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &c.Service) == nil {
		return nil
	}
	type mapping isotopeCall
	return json.Unmarshal(data, (*mapping)(c))
}

// scalar is the text of a YAML scalar.
type scalar string

func (s *scalar) UnmarshalJSON(data []byte) error {
	*s = scalar(strings.Trim(string(data), `"`))
	return nil
}

// ReadIsotope reads and checks a service graph of isotope. A script becomes a service time,
// the sum of its sleeps, which comes before all calls, and calls: in parallel if the script is
// one list of calls, otherwise in sequence.
//
// The format is that of istio/tools, isotope/convert/pkg/graph, as of August 2026; its README
// describes an older one. As there, sizes are powers of 1024 whatever the unit's spelling, and
// unknown fields are ignored.
func ReadIsotope(data []byte) (Isotope, error) {
	var file struct {
		Defaults isotopeFields     `json:"defaults"`
		Services []json.RawMessage `json:"services"`
	}
	if len(data) > MaxFile {
		return Isotope{}, errs.Usage("a graph of more than %d bytes", MaxFile)
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return Isotope{}, errs.Usage("not an isotope graph: %w", err)
	}
	var out Isotope
	for i, raw := range file.Services {
		in := isotopeService{isotopeFields: file.Defaults}
		in.Script = nil // decoding would overwrite the script of the defaults
		if err := json.Unmarshal(raw, &in); err != nil {
			return Isotope{}, errs.Usage("services[%d]: %w", i, err)
		}
		if in.Script == nil {
			in.Script = file.Defaults.Script
		}
		s, err := in.read()
		if err != nil {
			return Isotope{}, errs.Usage("services[%d] (%s): %w", i, clip(in.Name), err)
		}
		if out.Graph.Services = append(out.Graph.Services, s); in.Entry {
			out.Entries = append(out.Entries, in.Name)
		}
	}
	out.Graph = out.Graph.WithDefaults()
	return out, out.Graph.Check().Err()
}

func (in *isotopeService) read() (s Service, err error) {
	s.Name, s.Replicas = in.Name, in.Replicas
	switch strings.ToLower(in.Type) {
	case "", "http":
		s.Protocol = protocol.HTTP1
	case "grpc":
		s.Protocol = protocol.GRPC
	default:
		return s, fmt.Errorf("unknown type %q: http and grpc are possible", clip(in.Type))
	}
	share, err := in.ErrorRate.share()
	if err != nil {
		return s, fmt.Errorf("errorRate: %w", err)
	}
	if share > 0 {
		s.Failures = []Failure{{Share: share, How: FailStatus, Status: 500}}
	}
	if s.ResponseBytes, err = in.ResponseSize.size(); err != nil {
		return s, fmt.Errorf("responseSize: %w", err)
	}
	if in.Script == nil {
		return s, nil
	}
	var script []json.RawMessage
	if err := json.Unmarshal(in.Script, &script); err != nil {
		return s, fmt.Errorf("script: %w", err)
	}
	widest := 0 // calls of a step
	for i, step := range script {
		commands := make([]isotopeCommand, 1)
		if strings.HasPrefix(string(step), "[") {
			err = json.Unmarshal(step, &commands)
		} else {
			err = json.Unmarshal(step, &commands[0])
		}
		before := len(s.Calls)
		for _, c := range commands {
			if err == nil {
				err = s.command(c, in.RequestSize)
			}
		}
		if err != nil {
			return s, fmt.Errorf("script[%d]: %w", i, err)
		}
		widest = max(widest, len(s.Calls)-before)
	}
	if widest > 1 && widest == len(s.Calls) {
		s.Mode = Parallel
	}
	return s, nil
}

// command adds a command of a script.
func (s *Service) command(c isotopeCommand, request scalar) error {
	switch {
	case (c.Sleep == "") == (c.Call == nil):
		return fmt.Errorf("a command must be either sleep or call")
	case c.Call == nil:
		d, err := time.ParseDuration(c.Sleep)
		if err != nil || d < 0 || d > MaxTime {
			return fmt.Errorf("sleep: %q is not a time of at most %s", clip(c.Sleep), MaxTime)
		}
		s.ServiceTime.Mean += d
		return nil
	}
	if c.Call.Probability < 0 || c.Call.Probability > 100 {
		return fmt.Errorf("call: probability %d: 0 to 100 is possible", c.Call.Probability)
	}
	if c.Call.Size == "" {
		c.Call.Size = request
	}
	bytes, err := c.Call.Size.size()
	s.Calls = append(s.Calls, Call{To: c.Call.Service, RequestBytes: bytes, Probability: float64(c.Call.Probability) / 100})
	return err
}

// share reads a share from 0 to 1; "" is 0.
func (s scalar) share() (float64, error) {
	if s == "" {
		return 0, nil
	}
	text, percent := strings.CutSuffix(string(s), "%")
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		f /= 100
	}
	if err != nil || !(f >= 0 && f <= 1) {
		return 0, fmt.Errorf("%q is not a share from 0 to 1", clip(string(s)))
	}
	return f, nil
}

var sizePattern = regexp.MustCompile(`(?i)^([0-9]+(?:\.[0-9]+)?) ?([kmgtp]?)i?b?$`)

// size reads a number of bytes; "" is 0.
func (s scalar) size() (int64, error) {
	if s == "" {
		return 0, nil
	}
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(string(s)))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", clip(string(s)))
	}
	f, err := strconv.ParseFloat(m[1], 64)
	f *= math.Pow(1024, float64(strings.Index(" kmgtp", strings.ToLower(m[2]))*len(m[2])))
	if err != nil || f > MaxBytes {
		return 0, fmt.Errorf("%s is too large, at most %d bytes are possible", clip(string(s)), MaxBytes)
	}
	return int64(f), nil
}
