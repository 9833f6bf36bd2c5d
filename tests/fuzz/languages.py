"""Texts in the languages that readers take: nearly valid, and put together of their words.

``joined`` strings words together, for flat languages; ``nested`` puts texts into templates, for
those with brackets.
"""

import re
from collections.abc import Callable
from typing import Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Language = Callable[[], SearchStrategy[bytes]]
"""Is called by the process that feeds, so that no other makes strategies."""


def joined(words: str, *more: str, most: int = 24) -> Language:
    """Return texts of these words, of which each may also be any short text.

    Two spaces or a line break stand between words; ``more`` are those that begin or end with space.
    """
    word = _word(words, more)
    return lambda: st.lists(word, max_size=most).map("".join).map(_encoded)


def nested(leaves: str, templates: str, *more: str, most: int = 16) -> Language:
    """Return texts in which each ``@`` of a template has become another such text."""
    known = [*_split(templates), *(each for each in more if "@" in each)]
    leaf = _word(leaves, tuple(each for each in more if "@" not in each))

    def filled(template: str, parts: list[str]) -> str:
        head, *rest = template.split("@")
        return head + "".join(f"{part}{tail}" for part, tail in zip(parts, rest, strict=False))

    def extend(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        return st.builds(filled, st.sampled_from(known), st.lists(inner, min_size=3, max_size=3))

    return lambda: st.recursive(leaf, extend, max_leaves=most).map(_encoded)


def _word(words: str, more: tuple[str, ...]) -> SearchStrategy[str]:
    return st.one_of(*(st.sampled_from((*_split(words), *more)),) * 9, st.text(max_size=3))


def _split(words: str) -> list[str]:
    return re.split(r" *\n *|  +", words.strip(" \n"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_HOST: Final = """
    example.com  EXAMPLE.com.  localhost  10.0.0.1  [::1]  [::ffff:10.0.0.1]  [  ]  0x7f.1
    2130706433  %31%30  \u0661  \uff0e  \u3002  \xdf  xn--a  %25eth0
    """
URL: Final = joined(
    _HOST
    + """
    http://  https://  HTTP:  oci://  ssh://  nats://  file://  git@  //  /  :  u:p@  @  :80
    :0443  :99999  :-1  :  ?  #  &a=b  a  .git  ..  /../  /./  ..;  ;a=b  %2e%2e  %2f  %00  %  %zz
    \\  \x00  \ufeff  ~  +  $  {  |  ^  `  '  "  <
    """,
    " ",
    "\t",
    "\n",
    "\r\n",
    "\u2028",
    most=10,
)
ADDRESS: Final = joined(
    _HOST
    + """
    .  :  ::  0  255  1.2.3.4  /8  metadata
    """,
    most=8,
)
TIME: Final = joined(
    """
    2026-11-27  0000-01-01  9999-12-31  T  05:00:00  24:00:00  23:59:60  Z  +00:00  -23:59  +24:00
    .000000001  .  ,5  Feb 29 2027  GMT  -0001  20261127  2026-W01-1  \u0662  -  :  1e9  -2359
    """,
    " ",
    "Mon, ",
    "30 Nov ",
    "31 Dec 9999 23:59:59 ",
    most=6,
)
DURATION: Final = joined(
    """
    1  0  -  +  .  1.5  999999999999999999999999999999  ns  us  \xb5s  \u03bcs  ms  s  m  h  1h30m
    d  e9  \u0663  _  0x1  inf  nan
    """,
    " ",
    most=8,
)
NAME: Final = joined(
    """
    a  app  0  sha256  :  @  /  _  -  .
    sha256:0000000000000000000000000000000000000000000000000000000000000000  :v1.2.3  A
    example.com  :5000  localhost  1.2.3  v  -rc.1  +b  >=  <  ~  ^  ||  ,  x  *  in (a, b)  notin
    !  =  ==  !=  (  )  app_v1_Deployment  999999999999999999999999999999  ..  \xe9  [::1]  %2f
    \x00
    """,
    " - ",
    " ",
    "\n",
    most=10,
)
REFSPEC: Final = joined(
    """
    +  :  refs/heads/  refs/for/  main  a  /  ..  @{  *  .lock  ~  ^  \\  -  //  .  \x7f  ?  [
    """,
    " ",
    most=8,
)
SELECTOR: Final = joined(
    """
    a  app  example.com/  =  ==  !=  in  notin  )  ,  !  >  <  1  metadata.name
    metadata.namespace  ;q=0.5  application/json  ;as=Table  ;v=v1  */*  \\  '  "  \xe9  %2C
    aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    """,
    " (",
    "",
    " ",
    most=14,
)
PATTERN: Final = nested(
    """
    a  .  ^  $  \\d  \\pL  \\b  [a-z]  [[:alpha:]]  [^a]  \\Q*\\E  \\x{10ffff}  (?i)  (?P<a>  \\1
    \\C  [  )  *  {2,1}  \\  [\\d-z]  \xe9
    """,
    """
    (@)  (?:@)  (?P<n>@)  @|@  @@  @*  @+?  @{3}  @{0,99}  @?  (@|@)*  [@]  ^@$  (?s-i:@)  @{1000}
    \\Q@
    """,
    "\n${a}$1$$",
    "@\n$1",
)
GLOB: Final = nested(
    """
    *  **  ?  /  a  b.yaml  [a-z]  [!a]  [  ]  {  }  \\  #  !  ,  ../  ./  \\#  {name}  @  [[:a:]]
    \xe9  ***
    """,
    """
    @/@  {@,@}  @@  !@  /@  @/  @*  **/@  @/**  [@]  {@}  \\@
    """,
    " ",
    "\n",
    "@\n@",
)
CEL: Final = nested(
    """
    self  self.a  dep  object  1  2u  1.5  true  null  'b'  r"\\d"  b'a'  []  {}  x  self.?c
    timestamp(0)  duration('1s')  -9223372036854775808  0xff  '''a'''  optional.none()  type  int
    self['a']  '\\U0010ffff'  1e400  google.protobuf.Any{}
    """,
    """
    (@)  !@  -@  @ && @  @ || @  @ ? @ : @  @ == @  @ < @  @ + @  @ / @  @ % @  [@, @]  {@: @}
    @[@]  @[?@]  @.a  @.?a  has(@.a)  size(@)  @ in @  string(@)  @.all(x, @)  @.exists(x, @)
    @.map(x, @)  @.filter(x, @)  @.map(x, @, @)  @.size()  @.matches(@)  @.contains(@)  @.split(@)
    @.replace(@, @)  @.format([@])  @.join(@)  @.optMap(x, @)  @.orValue(@)  sets.contains(@, @)
    base64.decode(@)  timestamp(@)  int(@)  uint(@)  double(@)  bytes(@)  dyn(@)  type(@)
    duration(@)  [?@]  {?@: @}  @.exists_one(x, @)  cel.bind(x, @, @)  @.substring(@)  @.charAt(@)
    @.getFullYear(@)
    """,
)
VARIABLES: Final = nested(
    """
    $  a  ${a}  $a  ${  }  $$  \\  1  -1  *  /  ?  [a-z]  \xe9  '
    """,
    """
    ${@}  ${a:-@}  ${a:=@}  ${a:?@}  ${a:+@}  ${#@}  ${a#@}  ${a##@}  ${a%@}  ${a%%@}  ${a/@/@}
    ${a//@/@}  ${a/#@/@}  ${a:@}  ${a:@:@}  ${a^}  ${a^^@}  @@  ${a,,}  $${@}  ${a-@}  "@"
    """,
    "\n",
    "x: @\n",
)
TEMPLATE: Final = nested(
    """
    .  .AutomationObject  .Changed.Changes  $  $x  1  "a"  `a`  nil  'a'  a  1e9  {{  }}  {{-  -}}
    {{/* a */}}  len  printf  .Updated.Images  {{break}}  -1
    """,
    """
    {{ @ }}  {{ range @ }}@{{ end }}  {{ range $x, $y := @ }}@{{ end }}
    {{ if @ }}@{{ else }}@{{ end }}  {{ with @ }}@{{ end }}  {{ define "a" }}@{{ end }}
    {{ template "a" @ }}  {{ block "b" @ }}@{{ end }}  {{ $x := @ }}@  @ | @  (@)  @ @  index @ @
    slice @ @ @  printf @ @  html @  @.a  len @  {{ and @ @ }}  eq @ @  call @  js @  urlquery @
    printf "%*d" @ @  {{- @ -}}
    """,
)
PATH: Final = joined(
    """
    a  .  [0]  [  ]  [999999999]  [-1]  =  ,  {  }  \\  \\.  \\,  null  1  true  'a'  "  1e999
    0x1  \xe9  [1048576]  [0x1]  a.b  {a,1}
    """,
    " ",
    "\n",
    most=14,
)
LINES: Final = joined(
    """
    a  =  a=b  [a]  [  ]  "  '  \\n  #  ;  sops_mac=  sops_age__list_0__map_enc=
    sops_age__list_99999999__map_a=  __map_  ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:YmF6,type:str]
    __list_0__  \x00
    """,
    "\n",
    "\r\n",
    "\r",
    " ",
    "\t",
    "export ",
    "[sops]\n",
    "\x85",
    "\u2028",
    "mac = ",
)
MODULES: Final = joined(
    """
    [submodule "  "]  ..  /  a  \\  "  ../b.git  https://example.com/a  -a  #  ;  branch = .  .git
    C:
    """,
    '[submodule "a"]\n',
    "path = ",
    "url = ",
    "\n",
    "\t",
    "[core]\n",
    "\\\n",
    "\r",
)
KNOWN_HOSTS: Final = joined(
    """
    a  host,*.example.com  |1|  YQ==  |  [a]:22
    AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl  !a  *  ?  ssh-rsa AAAA
    valid-after="20260101",  #  \x00
    """,
    " ",
    "\n",
    "@revoked ",
    "@cert-authority ",
    "ssh-ed25519 ",
    "cert-authority ",
    'namespaces="git" ',
    "\r",
)
COMMIT: Final = joined(
    """
    tree 0000000000000000000000000000000000000000  parent 0000000000000000000000000000000000000000
    author A <a@example.com> 1 +0100  <  >  -  99999999999999999999
    object 0000000000000000000000000000000000000000  type commit  tag v1  encoding latin1  \x00
    \xe9
    """,
    "committer ",
    "\n",
    "\n\n",
    "gpgsig ",
    "-----BEGIN SSH SIGNATURE-----\n",
    "-----END SSH SIGNATURE-----\n",
    " ",
    "tagger ",
    "mergetag ",
)
MARKUP: Final = nested(
    """
    a  &lt;  &#65;  &#xFFFFFF;  &#0;  &b;  1  <Key>a</Key>  <Size>9</Size>  <a/>  <  <![CDATA[a]]>
    <!-- a -->  <?a b?>  <!DOCTYPE a>  ]]>  <Size>-1</Size>  \xe9  \x00
    <LastModified>2026-01-01T00:00:00Z</LastModified>
    <Size>99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999</Size>
    """,
    """
    <L>@</L>  <Contents>@</Contents>  <L xmlns="u">@</L>  <a b='@'>@</a>  @@  <a:b>@</a:b>
    <IsTruncated>@</IsTruncated>  <Blobs><Blob>@</Blob></Blobs>  <NextMarker>@</NextMarker>
    <?xml version='1.0'?>@  <L>@  <AccessKeyId>@</AccessKeyId>  <Expiration>@</Expiration>
    """,
)
TOKEN: Final = joined(
    """
    e30  .  eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ  eyJhbGciOiJub25lIn0  eyJpc3MiOiJhIn0  =  _  -
    realm="  https://example.com/token  ",  service="a"  scope="  \\  c2ln
    """,
    "Bearer ",
    " ",
    "\n",
    most=10,
)
