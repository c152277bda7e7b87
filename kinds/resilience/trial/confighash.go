package trial

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
)

// stamps are the fields of Envoy's response that differ with every control-plane message, whatever
// its content. See envoy.admin.v3.ConfigDump.
var stamps = []string{"last_updated", "version_info", "system_version_info"}

// configHash identifies a configuration by its content. Envoy writes the members of its maps,
// and some lists, in a different order each time.
func configHash(text []byte) ([sha256.Size]byte, error) {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("configuration: %w", err)
	}
	plain, err := canonical(tree)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("configuration: %w", err)
	}
	return sha256.Sum256(plain), nil
}

// canonical encodes a JSON value without stamps in a canonical order: objects by name, lists by the
// content of their elements.
func canonical(tree any) (json.RawMessage, error) {
	switch v := tree.(type) {
	case map[string]any:
		out := make(map[string]json.RawMessage, len(v))
		for name, value := range v {
			if slices.Contains(stamps, name) {
				continue
			}
			text, err := canonical(value)
			if err != nil {
				return nil, err
			}
			out[name] = text
		}
		return json.Marshal(out)
	case []any:
		out := make([]json.RawMessage, len(v))
		for i, value := range v {
			text, err := canonical(value)
			if err != nil {
				return nil, err
			}
			out[i] = text
		}
		slices.SortFunc(out, func(a, b json.RawMessage) int { return slices.Compare(a, b) })
		return json.Marshal(out)
	}
	return json.Marshal(tree)
}
