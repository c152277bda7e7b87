package mesh

import "strings"

// Version returns a component's version according to its image: the tag, or the
// digest.
func Version(image string) string {
	name := image[strings.LastIndex(image, "/")+1:]
	if _, digest, ok := strings.Cut(name, "@"); ok {
		return digest
	}
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return "latest"
}
