"""The material of the corpus: real word lists and words composed from syllables, split in two worlds.

Every value is in the training world or in the held-out world, decided by a checksum of the value itself, so a
held-out name, title, code, date or amount never occurs in a training text.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable

FIRST = """Ada Alan Albert Alice Amara Amir Ana Andrea Anita Anna Antonio Arjun Astrid Aisha Barbara Beatrice Ben Bianca
Boris Bruno Carla Carlos Cecilia Chen Chidi Chloe Clara Daniel Daria David Deepa Diego Dmitri Edith Elena Elias Elif
Emil Emma Enzo Erik Esther Eva Farid Fatima Felix Fiona Florence Francesca Frank Gabriel George Giulia Grace Greta
Gustav Hannah Hans Harriet Hassan Helen Henry Hiro Hugo Ibrahim Ida Igor Ingrid Irene Isabel Ivan Jack Jamal James
Jana Javier Jean Joan Johan John José Julia Jun Kamal Karen Karl Katherine Kenji Khadija Kofi Lars Laura Leila Leo
Lena Liam Lin Linda Linus Louis Lucia Luca Lukas Maja Marcus Margaret Maria Marie Mario Marta Martin Mateo Maya Mei
Michael Mila Mina Mohamed Mona Nadia Naomi Natalia Nia Nina Noah Nora Olga Oliver Olivia Omar Oscar Pablo Paul Paula
Pedro Peter Petra Philip Priya Rafael Rahul Raj Ravi Rebecca René Rita Robert Rosa Ruth Samir Samuel Sandra Sara
Sebastian Simon Sofia Sophie Stefan Susan Sven Tara Tessa Thomas Tim Tomás Uma Ursula Valentina Vera Victor Vikram
Walter Wanda Wei Yara Yuki Yusuf Zara Zoë""".split()

LAST = """Abbott Adams Ahmed Ali Andersen Baker Banerjee Barbieri Bauer Becker Bell Bennett Berg Bianchi Blake Bose
Brown Burke Carter Castillo Chandra Clark Cohen Cole Costa Cruz Curie Dahl Davies Delgado Demir Diaz Dubois Dunn
Eriksson Evans Fernandez Ferrari Fischer Fisher Fleming Flores Fontaine Ford Foster Franklin Fuchs Garcia Gauss Gomez
Grant Gray Green Gupta Haas Hansen Harris Hayashi Hernandez Hoffmann Holm Hopper Hughes Ito Ivanov Jackson Jansen
Jensen Johansson Johnson Jones Joshi Kapoor Kaya Keller Khan Kim King Klein Kowalski Kumar Lamarr Lang Larsen Laurent
Lee Lehmann Lewis Li Lopez Lovelace Maier Marino Marsh Martinez Mason Mehta Mendel Meyer Miller Mitchell Moreau Morris
Müller Murphy Nakamura Nguyen Nielsen Noether Novak Nowak Okafor Olsen Ortiz Osei Park Patel Pereira Perez Peters
Petrov Phillips Pohl Popov Price Quinn Ramirez Rao Reed Reyes Ricci Richter Rivera Robinson Romano Rossi Russo Saito
Sanchez Santos Sato Schmidt Schneider Schulz Shah Sharma Silva Singh Smith Sokolov Stone Suzuki Svensson Takahashi
Tanaka Taylor Thompson Torres Turing Turner Vogel Volkov Wagner Walker Wang Watson Weber White Wilson Winter Wolf
Wright Yamamoto Yilmaz Young Zhang Zhou Ziegler""".split()

CITIES = """Accra|Amsterdam|Ankara|Antwerp|Athens|Austin|Bangkok|Barcelona|Basel|Beirut|Belfast|Bergen|Berlin|Bern|
Bogotá|Bologna|Bonn|Boston|Bremen|Brighton|Bristol|Brussels|Budapest|Buenos Aires|Cairo|Calgary|Cape Town|Cardiff|
Chicago|Cologne|Copenhagen|Cork|Dakar|Dallas|Delhi|Denver|Detroit|Dresden|Dubai|Dublin|Edinburgh|Florence|Frankfurt|
Galway|Geneva|Genoa|Ghent|Glasgow|Graz|Hamburg|Hanoi|Havana|Helsinki|Hong Kong|Istanbul|Jakarta|Kraków|Kyoto|Lagos|
Leeds|Leipzig|Lima|Lisbon|Liverpool|London|Los Angeles|Lyon|Madrid|Malmö|Manchester|Manila|Marseille|Melbourne|
Mexico City|Miami|Milan|Montreal|Mumbai|Munich|Nairobi|Naples|New York|Nice|Osaka|Oslo|Oxford|Palermo|Paris|Perth|
Porto|Prague|Quito|Reykjavik|Riga|Rome|Rotterdam|San Diego|San Francisco|Santiago|São Paulo|Seattle|Seoul|Seville|
Singapore|Sofia|Stockholm|Stuttgart|Sydney|Taipei|Tallinn|Tokyo|Toronto|Toulouse|Trieste|Tunis|Turin|Utrecht|
Valencia|Vancouver|Venice|Vienna|Vilnius|Warsaw|Wellington|York|Zagreb|Zurich""".replace("\n", "").split("|")

ADJECTIVES = """red blue green black white small large wireless electric wooden steel leather cotton ceramic portable
folding digital mechanical silver golden heavy light soft compact classic modern quiet fast warm cold waterproof
solar manual smart vintage round square thin travel garden kitchen office""".split()

NOUNS = """mouse keyboard lamp chair desk table mug teapot kettle toaster blender headphones speaker camera tripod
backpack suitcase umbrella jacket scarf notebook pen pencil stapler printer monitor charger cable battery drill hammer
saw ladder bucket rake shovel bicycle helmet tent lantern stove pan knife bowl plate vase mirror clock watch pillow
blanket rug curtain sofa shelf basket bottle flask candle guitar violin drum puzzle robot vacuum heater fan router
phone tablet laptop projector microphone""".split()

THEMES = """Light Shadow River Garden Winter Summer Stone Silence Night Morning Ocean Mountain Forest Memory Mirror Clock
Bridge Tower Island Storm Harbour Desert Glass Iron Paper Salt Fire Snow Wind Star Moon Road Letter Song Dream Secret
House Orchard Train Map""".split()

TITLE_ADJECTIVES = """Last First Silent Golden Broken Hidden Lost Long Quiet Distant Invisible Burning Frozen Empty Second
Blue Crimson Endless Little Ancient""".split()

TOPICS = """Budget Design Project Quarterly Security Marketing Product Team Planning Strategy Hiring Research Sales
Launch Data Roadmap Customer Release Safety Training""".split()

GATHERINGS = "Review Meeting Workshop Kickoff Retrospective Call Briefing Update Session Lunch Interview Demo".split()

JOBS = """nurse teacher engineer baker lawyer architect pilot chemist plumber carpenter journalist designer farmer
librarian electrician dentist translator gardener accountant photographer mechanic violinist physicist mathematician
programmer surgeon painter chef historian geologist""".split()

ROLES = """Engineer Developer Analyst Designer Manager Architect Scientist Administrator Consultant Technician Tester
Writer Accountant Recruiter Planner""".split()

ROLE_KINDS = """Senior Junior Lead Software Data Backend Frontend Network Cloud Security Product Research Mechanical
Financial Technical Marketing Systems""".split()

SKILLS = """Python|Java|Rust|Go|SQL|Excel|Docker|Kubernetes|Linux|React|TypeScript|Swift|Kotlin|Figma|Photoshop|Terraform|
Spark|Kafka|Ruby|Scala|Haskell|French|German|Spanish|negotiation|statistics|accounting|copywriting|leadership|
welding|testing|networking""".replace("\n", "").split("|")

SUFFIXES = "Ltd|Inc|GmbH|Group|Labs|Systems|Partners|Industries|Foods|Logistics|Media|Energy|& Sons|Works".split("|")
STREETS = "Street|Road|Lane|Avenue|Square|Court|Way|Drive|Hill|Gardens".split("|")
DOMAINS = "example.com|example.org|mail.example|post.example|acme.example|uni.example".split("|")
LABELS = """wake up|take the pasta out|call the bank|water the plants|walk the dog|feed the cat|leave for work|
pick up the kids|take a break|stretch|go for a run|check the oven|start the laundry|join the stand-up|
take the medicine|catch the train|buy milk|practise guitar|charge the car|close the shop""".replace("\n", "").split("|")

ONSETS = "b br c ch d dr f fr g gr h j k kl l m n p pr r s sh st t tr v w z th".split()
VOWELS = "a e i o u ai ea ia io ou".split()
CODAS = ["", "", "", "n", "r", "l", "s", "m", "nd", "rt", "x", "ck", "th"]

Maker = Callable[[random.Random], str]


def held_out(value: str) -> bool:
    """Whether a value belongs to the held-out world: about one in eight."""
    return zlib.crc32(value.encode()) % 8 == 0


class WordSource:
    """Draws values from one of the two worlds.

    Args:
        rng: the source of all choices.
        heldout: draw held-out values (evaluation) instead of training values.
    """

    def __init__(self, rng: random.Random, *, heldout: bool = False) -> None:
        self.rng = rng
        self.heldout = heldout

    def pick(self, values: list[str]) -> str:
        """An element of any list, of either world: closed sets such as job titles or skills."""
        return self.rng.choice(values)

    def draw(self, make: Maker) -> str:
        """The first value of `make` that belongs to this world."""
        while held_out(value := make(self.rng)) is not self.heldout:
            pass
        return value

    def first(self) -> str:
        """A given name."""
        return self.draw(lambda rng: rng.choice(FIRST) if rng.random() < 0.5 else syllables(rng).capitalize())

    def last(self) -> str:
        """A family name."""
        return self.draw(_last)

    def name(self) -> str:
        """A full name, sometimes with an initial."""
        middle = f" {self.rng.choice('ABCDEFGHJKLMNPRSTW')}." if self.rng.random() < 0.06 else ""
        return f"{self.first()}{middle} {self.last()}"

    def city(self) -> str:
        """A city."""
        return self.draw(lambda rng: rng.choice(CITIES) if rng.random() < 0.55 else syllables(rng).capitalize())

    def company(self) -> str:
        """A company."""
        return f"{self.last()} {self.pick(SUFFIXES)}"

    def product(self) -> str:
        """A product: one noun with up to one adjective."""
        return self.draw(_product)

    def street(self) -> str:
        """A street with a number."""
        return f"{self.rng.randint(1, 199)} {self.last()} {self.pick(STREETS)}"

    def book(self) -> str:
        """A book's title."""
        return self.draw(_book)

    def event(self) -> str:
        """A meeting's title."""
        return self.draw(lambda rng: f"{rng.choice(TOPICS)} {rng.choice(GATHERINGS)}")

    def role(self) -> str:
        """A job title."""
        return self.draw(lambda rng: f"{rng.choice(ROLE_KINDS)} {rng.choice(ROLES)}")

    def date(self) -> str:
        """An ISO date from 2020 to 2030."""
        return self.draw(lambda rng: f"{rng.randint(2020, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}")

    def time(self) -> str:
        """HH:MM."""
        return f"{self.rng.randint(0, 23):02}:{self.rng.choice([0, 15, 30, 45, self.rng.randint(0, 59)]):02}"

    def integer(self, low: int, high: int) -> int:
        """An integer of this world, the bounds included."""
        return int(self.draw(lambda rng: str(rng.randint(low, high))))

    def code(self, pattern: str) -> str:
        """A code: `#` becomes a digit, `@` a capital letter."""
        return self.draw(lambda rng: "".join(_code_character(rng, character) for character in pattern))

    def cents(self, low: int, high: int) -> float:
        """An amount with up to two decimals."""
        return float(self.draw(lambda rng: str(rng.randint(low * 100, high * 100) / 100)))

    def sample(self, make: Callable[[], str], low: int, high: int) -> list[str]:
        """`low` to `high` different values."""
        wanted, values = self.rng.randint(low, high), list[str]()
        while len(values) < wanted:
            value = make()
            if value not in values:
                values.append(value)
        return values


def syllables(rng: random.Random) -> str:
    """A pronounceable made-up word of one to three syllables."""
    count = rng.choice([1, 2, 2, 2, 3])
    word = "".join(rng.choice(ONSETS) + rng.choice(VOWELS) for _ in range(count))
    return word + rng.choice(CODAS)


def _last(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.5:
        return rng.choice(LAST)
    prefix = rng.choice(["O'", "Mc", "van "]) if draw < 0.54 else ""
    return prefix + syllables(rng).capitalize()


def _product(rng: random.Random) -> str:
    noun = rng.choice(NOUNS)
    return f"{rng.choice(ADJECTIVES)} {noun}" if rng.random() < 0.8 else noun


def _book(rng: random.Random) -> str:
    shape = rng.randint(0, 3)
    one, two = rng.choice(THEMES), rng.choice(THEMES)
    if shape == 0:
        return f"The {rng.choice(TITLE_ADJECTIVES)} {one}"
    if shape == 1:
        return f"{one} of {syllables(rng).capitalize()}"
    return f"The {one} and the {two}" if shape == 2 else f"{rng.choice(TITLE_ADJECTIVES)} {one}"


def _code_character(rng: random.Random, character: str) -> str:
    if character == "#":
        return rng.choice("0123456789")
    return rng.choice("ABCDEFGHJKLMNPRSTUVWXYZ") if character == "@" else character
