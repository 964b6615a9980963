package run

// NameParts is how the name on the command line is read.
var NameParts = nameParts
