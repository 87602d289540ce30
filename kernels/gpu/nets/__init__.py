"""Dense nets of many groups at once, as operations on arrays of a device."""
