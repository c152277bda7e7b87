package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseEnvoyStatsJSON parses a response of /stats?format=json into values by
// name. It omits histograms and text values, which are not single numbers.
func ParseEnvoyStatsJSON(data []byte) (map[string]float64, error) {
	var doc struct {
		Stats []struct {
			Name  string          `json:"name"`
			Value json.RawMessage `json:"value"`
		} `json:"stats"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("envoy statistics: %w", err)
	}
	out := make(map[string]float64, len(doc.Stats))
	for _, stat := range doc.Stats {
		if stat.Name == "" || len(stat.Value) == 0 {
			continue // the entry of histograms
		}
		var value float64
		if json.Unmarshal(stat.Value, &value) == nil {
			out[stat.Name] = value
		}
	}
	return out, nil
}

// envoyInfo is the content of /server_info.
type envoyInfo struct {
	version string        // "1.40.0"
	uptime  time.Duration // of the process
}

func parseEnvoyServerInfo(data []byte) (info envoyInfo, err error) {
	var doc struct {
		Version string `json:"version"`
		Uptime  string `json:"uptime_current_epoch"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return info, fmt.Errorf("envoy server info: %w", err)
	}
	// commit/version/status/build type/TLS library
	parts := strings.Split(doc.Version, "/")
	if len(parts) != 5 {
		return info, fmt.Errorf("envoy server info: version %.100q is not commit/version/status/type/library", doc.Version)
	}
	info.version = parts[1]
	if info.uptime, err = parseProtoDuration(doc.Uptime); err != nil {
		return info, fmt.Errorf("envoy server info: uptime_current_epoch: %w", err)
	}
	return info, nil
}

// parseProtoDuration parses protobuf's JSON form of a duration: "12s", "1.5s".
func parseProtoDuration(text string) (time.Duration, error) {
	number, ok := strings.CutSuffix(text, "s")
	seconds, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/1e9-1 {
		return 0, fmt.Errorf("%.40q is no duration", text)
	}
	return time.Duration(seconds * 1e9), nil
}

// EnvoyCertificate is a certificate that Envoy uses: its own, or one that it
// trusts.
type EnvoyCertificate struct {
	Authority bool // a trusted certificate
	Serial    string
	// Names has the subject's alternative names: SPIFFE identities, DNS names.
	Names      []string
	ValidFrom  time.Time
	Expiration time.Time
}

// ParseEnvoyCertificates parses a response of /certs.
func ParseEnvoyCertificates(data []byte) ([]EnvoyCertificate, error) {
	type certificate struct {
		Serial string `json:"serial_number"`
		Names  []struct {
			URI string `json:"uri"`
			DNS string `json:"dns"`
			IP  string `json:"ip_address"`
		} `json:"subject_alt_names"`
		From time.Time `json:"valid_from"`
		To   time.Time `json:"expiration_time"`
	}
	var doc struct {
		Certificates []struct {
			CA    []certificate `json:"ca_cert"`
			Chain []certificate `json:"cert_chain"`
		} `json:"certificates"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("envoy certificates: %w", err)
	}
	var out []EnvoyCertificate
	add := func(authority bool, certs []certificate) {
		for _, c := range certs {
			cert := EnvoyCertificate{Authority: authority, Serial: c.Serial, ValidFrom: c.From, Expiration: c.To}
			for _, name := range c.Names {
				for _, text := range []string{name.URI, name.DNS, name.IP} {
					if text != "" {
						cert.Names = append(cert.Names, text)
					}
				}
			}
			out = append(out, cert)
		}
	}
	for _, c := range doc.Certificates {
		add(false, c.Chain)
		add(true, c.CA)
	}
	return out, nil
}
