"""Named tables of numbers for `codebook=`.

The tables are constants. The definition of the dynamic maps sums float32 numbers in a
special order, so a formula would not return equal bits on every machine.
"""

from base64 import b64decode

import numpy as np
import numpy.typing as npt


def _of_bits(text: str) -> npt.NDArray[np.float32]:
    """Return float32 numbers from hexadecimal bits."""
    return np.array([int(one, 16) for one in text.split()], np.uint32).view(np.float32)


def _of_bytes(text: str) -> npt.NDArray[np.float32]:
    """Return float32 numbers from little-endian bytes in base 64."""
    return np.frombuffer(b64decode(text), "<f4").astype(np.float32)


_NF4 = (
    "bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 00000000 "
    "3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 3f1007ab 3f3913b3 3f800000"
)

# The table is symmetric: code 8 + i has the negated number of code i. Code 8 has +0 instead
# of -0.
_FP4 = (
    "00000000 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab 3e800000 "
    "00000000 bbaaaaab bf2aaaab bf800000 beaaaaab bf000000 be2aaaab be800000"
)

_DYNAMIC = (
    "MzN+v5qZer8AAHe/ZmZzv83Mb78zM2y/mplovwAAZb9mZmG/zcxdvzMzWr+amVa/AABTv2ZmT7/NzEu/"
    "MzNIv5qZRL8AAEG/ZmY9v83MOb80Mza/mpkyvwAAL79mZiu/zcwnvzQzJL+amSC/AAAdv2ZmGb/NzBW/"
    "NDMSv5qZDr8AAAu/ZmYHv8zMA78zMwC/MjP5vgAA8r7MzOq+mpnjvmZm3L4zM9W+AADOvszMxr6amb++"
    "Zma4vjMzsb4AAKq+zMyivpqZm75mZpS+NDONvgAAhr6ZmX2+MzNvvs3MYL5mZlK+AABEvpqZNb4zMye+"
    "zcwYvmZmCr4AAPi9NDPbvYXryb33KMS9Z2a+vdejuL1I4bK9uB6tvSpcp72amaG9CtebvXsUlr3rUZC9"
    "XY+Kvc3MhL17FH69XY9yvT0KZ70fhVu9AABQveF6RL3D9Ti9o3AtvYXrIb1nZha9SOEKvVK4/rwVrue8"
    "16PQvJqZubxdj6K8H4WLvMP1aLxI4Tq8ZDsfvBgEFrzNzAy8gZUDvGq89LvTTeK7O9/Pu6RwvbsNAqu7"
    "dJOYu90khruKbGe7XI9Cuy2yHbv8qfG6ne+nuv9ld7o+6Fm6gGo8usHsHroBbwG6g+LHuQXnjLkL1yO5"
    "Sx+6uLPvirg0gDe4BkKyt/8FAreUGlq2t6MTtQAAAAC3oxM1lBpaNv8FAjcGQrI3NIA3OLPvijhLH7o4"
    "C9cjOQXnjDmD4sc5AW8BOsHsHjqAajw6PuhZOv9ldzqd76c6/KnxOi2yHTtcj0I7imxnO90khjt0k5g7"
    "DQKrO6RwvTs73887003iO2q89DuBlQM8zcwMPBgEFjxkOx88SOE6PMP1aDwfhYs8XY+iPJqZuTzXo9A8"
    "Fa7nPFK4/jxI4Qo9Z2YWPYXrIT2jcC09w/U4PeF6RD0AAFA9H4VbPT0KZz1dj3I9exR+Pc3MhD1dj4o9"
    "61GQPXsUlj0K15s9mpmhPSpcpz24Hq09SOGyPdejuD1nZr499yjEPYXryT00M9s9AAD4PWZmCj7NzBg+"
    "MzMnPpqZNT4AAEQ+ZmZSPs3MYD4zM28+mZl9PgAAhj40M40+ZmaUPpqZmz7MzKI+AACqPjMzsT5mZrg+"
    "mpm/PszMxj4AAM4+MzPVPmZm3D6ameM+zMzqPgAA8j4yM/k+MzMAP8zMAz9mZgc/AAALP5qZDj80MxI/"
    "zcwVP2ZmGT8AAB0/mpkgPzQzJD/NzCc/ZmYrPwAALz+amTI/NDM2P83MOT9mZj0/AABBP5qZRD8zM0g/"
    "zcxLP2ZmTz8AAFM/mplWPzMzWj/NzF0/ZmZhPwAAZT+amWg/MzNsP83Mbz9mZnM/AAB3P5qZej8zM34/"
    "AACAPw=="
)

_DYNAMIC_UNSIGNED = (
    "AAAAAKp7rjSYCVA1OJsONvbMkjZRTN421eUUN24SgzegceE3aOgfOAAYTziaR344mbuWOGRTrjgx68U4"
    "S1kGOcpUQTlJUHw55KWbOaIjuTljodY5Ih/0OXHOCDpQjRc6MEwmOhALNTrvyUM60IhSOq9HYTqOBnA6"
    "bsV+OgaBlTo1Xro6ZDvfOkoMAjvhehQ7eOkmOxBYOTunxks7QDVeO9ejcDs3iYE7gsCKO8/3kzsaL507"
    "ZmamO7Kdrzv91Lg7SgzCO5VDyzvhetQ7LrLdO3jp5jvFIPA7D1j5O65HATxU4wU8+X4KPKAaDzxFthM8"
    "61EYPJLtHDw3iSE8KlwvPGdmRjyjcF084np0PI/ChTyvR5E8zcycPOtRqDwL17M8KVy/PEfhyjxnZtY8"
    "h+vhPKNw7TzD9fg8cD0CPQAACD2Pwg09H4UTPa9HGT09Ch89zcwkPVyPKj3rUTA9exQ2PQrXOz2amUE9"
    "KFxHPbgeTT1H4VI916NYPWdmXj33KGQ9h+tpPRWubz2jcHU9MzN7PeJ6gD0qXIM9cT2GPbgeiT0AAIw9"
    "SOGOPZDCkT3Xo5Q9H4WXPWdmmj2vR5099iigPT4Koz2F66U9zcyoPRWuqz1cj649pHCxPetRtD0zM7c9"
    "exS6PcP1vD0L1789UrjCPZqZxT3iesg9KVzLPQAA1D1mZuI9zczwPTMz/z3MzAY+AAAOPjQzFT5mZhw+"
    "mpkjPszMKj4AADI+NDM5PmZmQD6amUc+zMxOPgAAVj40M10+ZmZkPpqZaz7MzHI+AAB6PpmZgD4zM4Q+"
    "zcyHPmZmiz4AAI8+mpmSPjMzlj7MzJk+ZmadPgAAoT6amaQ+MzOoPszMqz5mZq8+AACzPpqZtj4zM7o+"
    "zMy9PmZmwT4AAMU+mpnIPjMzzD7MzM8+ZmbTPgAA1z6amdo+MzPePszM4T5mZuU+AADpPpqZ7D4zM/A+"
    "zMzzPmZm9z4AAPs+mZn+PpoZAT9m5gI/M7MEPwCABj/MTAg/mhkKP2bmCz80sw0/AIAPP81MET+aGRM/"
    "ZuYUPzSzFj8AgBg/zUwaP5oZHD9m5h0/NLMfPwCAIT/NTCM/mhklP2bmJj80syg/AIAqP81MLD+aGS4/"
    "ZuYvPzSzMT8AgDM/zUw1P5oZNz9m5jg/NLM6PwCAPD/NTD4/mhlAP2bmQT80s0M/AIBFP8xMRz+aGUk/"
    "ZuZKPzSzTD8AgE4/zExQP5oZUj9m5lM/NLNVPwCAVz/MTFk/mhlbP2bmXD80s14/AIBgP8xMYj+aGWQ/"
    "ZuZlPzSzZz8AgGk/zExrP5oZbT9m5m4/NLNwPwCAcj/MTHQ/mhl2P2bmdz80s3k/AIB7P8xMfT+aGX8/"
    "AACAPw=="
)

TABLES: dict[str, npt.NDArray[np.float32]] = {
    "nf4": _of_bits(_NF4),
    "fp4_bnb": _of_bits(_FP4),
    "dynamic8": _of_bytes(_DYNAMIC),
    "dynamic8_unsigned": _of_bytes(_DYNAMIC_UNSIGNED),
}
for _table in TABLES.values():
    _table.flags.writeable = False
