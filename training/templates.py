"""How the corpus says things: `[a|b]` is a choice (nested choices allowed), `{field}` a value."""

from __future__ import annotations

TEXTS: dict[str, list[str]] = {
    "person": [
        "{name}, {age}, [lives in|is based in|comes from|works in|moved to] {city}.",
        "{name} is {age} [years old|] and [lives in|comes from|was born in|resides in] {city}.",
        "[Meet|This is|I spoke with|Please welcome] {name} from {city}, [aged {age}|who is {age}|{age} years old].",
        "[My name is|I am|I'm|Hi, I'm|Hello, my name is] {name}[, I am|. I'm| and I am] {age} [years old |]and I live in {city}.",
        "[In|From] {city}[:|,] {name} ({age}) [won the race|sent us a letter|opened a small shop|called this morning].",
        "{age}-year-old {name} [lives in|of|from] {city} [|won the first prize|has joined the club|likes chess].",
        "name: {name}; [age: {age}; city: {city}|city: {city}; age: {age}]",
        "[At {age}|At the age of {age}], {name} [moved to|settled in|left for|returned to] {city}.",
        "{name} [turned|turns] {age} [last week|today|in March|this year] and [still lives|celebrated|now works] in {city}.",
        "[Yesterday|Last year|In the evening] {name}, a {job} [of {age}|aged {age}] [living in|from] {city}, [told us a story|was interviewed|gave a talk].",
    ],
    "resident": [
        "{name} [works as|is] a {job} and lives at {street}, [{postcode} {city}|{city} {postcode}].",
        "[The {job} {name}|{name}, a {job},|{name}, who is a {job},] [lives at|moved to|can be found at] {street} in {city} ([postcode |]{postcode}).",
        "[Our new neighbour is|Please register|We met] {name}, [{job}|a {job}|a {job} by trade]. [Address|The address is|Home address]: {street}, [{city} {postcode}|{postcode} {city}|{city}, {postcode}].",
        "[Name|Resident]: {name}. [Job|Occupation]: {job}. [Street|Address]: {street}. City: {city}. [Postcode|Zip]: {postcode}.",
        "[Send the letter to|Ship it to|The parcel is for] {name}, {street}, [{postcode} {city}|{city} {postcode}]. [They work|The recipient works] as a {job}.",
        "[I am|My name is] {name} and I [work as a|am a] {job}. [My address is|I live at|Write to me at] {street}, [{city}, {postcode}|{postcode} {city}].",
    ],
    "meeting": [
        "{title} on {date_text} at {time} with {people}.",
        "[Please schedule|Set up|Let's plan|Book|Put in the calendar] [the|a] {title} [for|on] {date_text} at {time}[, attendees: {people}| with {people}|. Invite {people}].",
        "[The {title}|{title}] [takes place|will be held|starts|is planned] on {date_text}[ at|,] {time}. {people} will [attend|join|be there].",
        "{people} [meet|are meeting|will meet] [on {date_text} at {time}|at {time} on {date_text}] for the {title}.",
        "[Reminder|Invitation|Calendar]: {title}, {date_text}, {time}. [Attendees|Participants|With]: {people}.",
        "[Hi all,|Dear team,|Hello,] the {title} [was moved to|is now on] {date_text}, {time}. [Expected|Invited|Present]: {people}.",
    ],
    "order": [
        "{customer} [ordered|bought|wants|would like|asked for] {items_text}{how}.",
        "[Order from|New order by|Order for] {customer}: {items_text}{how}.",
        "[Please send|Ship|Deliver] {items_text} to {customer}{how}.",
        "[Hello, this is|Hi, it's|My name is] {customer}. [I would like|I need|I want to order|Please send me] {items_text}{how}.",
        "[Customer|Client]: {customer}. [Items|Goods|Basket]: {items_text}. {Delivery}.",
        "[Yesterday|Today|This morning] {customer} [put|placed] {items_text} in the basket. {Delivery}.",
    ],
    "review": [
        "{opinion} [I gave|I give] the {product} {rating} [stars|out of 5|of five stars]. {advice}",
        "[I bought the|We got the|My sister bought the] {product} [last week|in May|a month ago|online]. {opinion} {rating}[/5| out of 5| stars]. {advice}",
        "[Review of the|About the|My view on the] {product}: {opinion} [Rating|Score|Stars]: {rating}. {advice}",
        "{rating} [stars|out of 5] for the {product}. {opinion} {advice}",
        "The {product} [arrived on Monday|came quickly|is here]. {opinion} {advice} [Rating|My rating|I rate it]: {rating}[/5|].",
    ],
    "flight": [
        "{passenger} [flies|is flying|travels|will fly] from {origin} to {destination} on {date_text}[ in|,] seat {seat}.",
        "[Book|Reserve|Please book] a flight [for {passenger} |]from {origin} to {destination} on {date_text}, seat {seat}[, for {passenger}|, passenger {passenger}].",
        "[Passenger|Traveller|Name]: {passenger}. [From|Departure]: {origin}. [To|Arrival|Destination]: {destination}. [Date|Day]: {date_text}. Seat: {seat}.",
        "On {date_text}[,|] {passenger} [leaves|departs from|flies out of] {origin} [for|and lands in|to] {destination}, [sitting in|in seat|seat] {seat}.",
        "[I am|My name is|This is] {passenger} and I [need|want|would like] to [fly|get|go] to {destination} from {origin} on {date_text}. [Seat {seat} please|I'd like seat {seat}|Preferably seat {seat}].",
        "[Ticket|Booking] for {passenger}: {origin} [to|-] {destination}, {date_text}, [seat |]{seat}.",
        "[Seat {seat} is reserved|We reserved seat {seat}] for {passenger} on the [flight|plane] [to {destination} from {origin}|from {origin} to {destination}], {date_text}.",
    ],
    "invoice": [
        "Invoice {number} from {vendor}[:| over| for] {money}, due [on |]{date_text}[, {state}|. It is {state}].",
        "{vendor} [sent|issued] invoice {number} [over|for|with a total of] {money}. [It is due on|Due|Payable by] {date_text}[ and {state}|. Status: {state}].",
        "[We received|I got|Here is] [the|an] invoice [number|no.|with the number] {number} [from|by] {vendor}. [Total|Amount|Sum]: {money}. [Due|Due date|Pay by]: {date_text}. [Status: {state}|It is {state}].",
        "[Total|Amount due]: {money}. [Vendor|Seller]: {vendor}. [Number|Invoice]: {number}. Due: {date_text}. [{state}|Status: {state}].",
        "[By|Until] {date_text} we [must|have to|should] pay {money} to {vendor} ([invoice |]{number}). It is {state}.",
    ],
    "job": [
        "{company} [is looking for|seeks|hires|needs] a {title}. [Salary|Pay]: {salary_text}. [Skills|You know|Required]: {skills_text}. {place}",
        "[We are|{company} is] hiring a {title}[ at {company}|]. {place} [You bring|You need|We expect] {skills_text}. [The salary is|We pay|You earn] {salary_text}.",
        "[Job|Position|Opening]: {title} at {company}, {salary_text}[ a year| per year|]. [Must know|Needs|Skills:] {skills_text}. {place}",
        "[Join|Work at|Come to] {company} as a {title} [for|and earn] {salary_text}. {place} [Skills|Requirements]: {skills_text}.",
        "[If you know|With] {skills_text}, you can [become|work as] a {title} at {company}. {place} [Salary|Pay]: {salary_text}.",
    ],
    "ticket": [
        "{customer} [writes|says|reports|told us]: {problem} {pressure}",
        "{problem} {pressure} [Regards|Best|Thanks|Best wishes], {customer}",
        "[Hello|Hi|Dear team|Good morning], [this is|I am|my name is] {customer}. {problem} {pressure}",
        "[From|Customer|Sender]: {customer}. [Message|Request]: {problem} {pressure}",
        "[A call from|A mail from|Ticket by] {customer}. {pressure} {problem}",
    ],
    "reading": [
        "[Station|The station] {station} [reports|measured|shows] {temperature} degrees and {humidity}[%| percent] humidity{alert}",
        "{station}: [temperature |]{temperature} [C|degrees], humidity {humidity}[%| percent]{alert}",
        "[It is|We have] {temperature} degrees at {station} with a humidity of {humidity}[%| percent]{alert}",
        "Humidity [is|was] {humidity}[%| percent] and the temperature {temperature} [C|degrees] at [station |]{station}{alert}",
    ],
    "book": [
        "{title} by {author} [was published|came out|appeared] in {year} and has {pages} pages.",
        "[In {year},|In the year {year}] {author} [published|wrote|finished] {title}[, a book of| ,|, a novel with] {pages} pages.",
        "[I am reading|I just finished|We recommend|She likes] {title} ({year}, {pages} pages) by {author}.",
        "[Author|Written by]: {author}. Title: {title}. [Year|Published]: {year}. Pages: {pages}.",
        "{author}: {title}. {pages} pages, {year}.",
        "[The {pages} pages of|On {pages} pages,] {title}, [written by|a book by] {author} in {year}, [are a joy|tells a long story|impressed us].",
        "{author}'s [book|novel] {title} has {pages} pages[ and came out in|; published in|. It dates from] {year}.",
    ],
    "get_weather": [
        "[What is the weather|How is the weather|What's the weather like|Tell me the weather] in {city} in {unit}?",
        "[How warm|How cold|How hot] is it in {city}? [Use {unit}|In {unit} please|Give me {unit}].",
        "[I want to know|Check|Please check] the [temperature|weather] in {city}[, in| in] {unit}.",
        "[Will it rain|Is it sunny|Do I need an umbrella] in {city}? [Answer in|I use|Show] {unit}.",
    ],
    "set_alarm": [
        "[Set an alarm|Set the alarm|Alarm] for {time} to {label}.",
        "[Remind me|Tell me] [at {time} to {label}|to {label} at {time}].",
        "[Please wake me|Wake me|I need an alarm] at {time}, [label it|call it|it is to] {label}.",
        "[I have to|I must|I should] {label} at {time}[, set an alarm|. Set an alarm please].",
    ],
    "send_message": [
        "[Tell|Text|Message] {to}: {text}.",
        "[Send a message to|Write to|Send a text to] {to} [saying|that says|with the words]: {text}.",
        "[Let {to} know|Inform {to}]: {text}.",
        '[Send|Text|Write] "{text}" to {to}.',
    ],
    "convert_currency": [
        "[Convert|Change|Exchange] {amount} {source} [to|into] {target}.",
        "[How much is|What is|How much are] {amount} {source} in {target}?",
        "[I have|We have|Here are] {amount} {source}[, how many {target} is that|. I need {target}].",
        "How many {target} do I get for {amount} {source}?",
    ],
    "play_music": [
        "[Play|Put on|Start|I want to hear] [something|songs|music|the best songs|an album] by {artist}{mix}",
        "[Play|Put on] {artist}{mix}",
        "[Can you play|Could you play|Please play] {artist}{mix}",
    ],
}

OPINIONS: dict[str, list[str]] = {
    "positive": [
        "[I love it|It is great|Works perfectly|Excellent quality|Very happy with it|It is wonderful].",
        "[The best I ever had|It exceeded my hopes|I am delighted|Fantastic|Superb and easy to use].",
        "[It looks beautiful|Great value|A joy to use|It runs very well|We are very pleased].",
    ],
    "negative": [
        "[It broke after two days|Terrible|It does not work|A waste of money|Very disappointed].",
        "[I hate it|Poor quality|It stopped working|The worst I ever had|It is far too loud|Awful].",
        "[It arrived damaged|It fell apart|Useless|I sent it back|Bad and expensive].",
    ],
    "neutral": [
        "[It is okay|Nothing special|It does the job|Average|Neither good nor bad|It is fine].",
        "[Some things are good, some are not|Not great, not terrible|Does what it should|So-so].",
        "[Just what one expects|Acceptable for the price|Mixed feelings].",
    ],
}

ADVICE: dict[bool, list[str]] = {
    True: [
        "I [would|can|will] recommend it.",
        "[Recommended|Buy it|Highly recommended|Worth buying|I would buy it again].",
        "[My friends should get one|Everybody should have one].",
    ],
    False: [
        "I [would not|cannot|do not] recommend it.",
        "[Not recommended|Do not buy it|Stay away|Don't buy it|I would not buy it again].",
        "[Save your money|Look for something else].",
    ],
}

PROBLEMS: dict[str, list[str]] = {
    "billing": [
        "[I was charged twice|The invoice is wrong|My card was charged too much|I want a refund|I paid but got no receipt].",
        "[There is an error on my bill|The discount is missing on the invoice|Why was I billed again?|The payment failed].",
    ],
    "bug": [
        "[The app crashes|The page stays blank|The search shows an error|The export does not work|The app freezes].",
        "[I get an error message|The button does nothing|The report shows wrong numbers|The screen flickers|Upload fails].",
    ],
    "account": [
        "[I cannot log in|I forgot my password|Please delete my account|My account is locked|I want to change my email].",
        "[The password reset does not arrive|How do I change my user name?|Please close my profile|My login is blocked].",
    ],
    "shipping": [
        "[My parcel has not arrived|The package is late|The delivery was sent to the wrong address|Where is my order?].",
        "[The parcel came damaged|The courier never came|Tracking shows nothing|I am waiting for my delivery].",
    ],
}

PRESSURES: dict[str, list[str]] = {
    "low": [
        "[No hurry|There is no rush|It can wait|Whenever you have time|Not urgent|It is not important].",
        "[Take your time|Low priority|Any time is fine].",
    ],
    "medium": [
        "[Please answer this week|I would like an answer soon|Please look into it|Normal priority|Please help].",
        "[Could you check it in the next days?|I need it by next week|Medium priority].",
    ],
    "high": [
        "[This is urgent|Please help immediately|I need this right now|It is an emergency|As soon as possible, please].",
        "[We cannot work at all|High priority|It must be solved today|Extremely urgent].",
    ],
}

MESSAGES = [
    "I [will be|am] [late|there at {time}|home soon|in {city}]",
    "the [meeting|dinner|train|call] is at {time}",
    "[see you|let's meet] [in {city}|at {time}|tomorrow|on Monday]",
    "[happy birthday|thank you for the {product}|please call {first}|we need a {product}]",
    "the {product} [has arrived|is broken|is in the office]",
    "[I miss you|good luck|all done|please bring the {product}|{first} is waiting]",
]

EXPRESS = {
    True: [
        " with express [shipping|delivery]",
        ", express please",
        ", as fast as possible",
        " by express",
        ", it is urgent",
    ],
    False: ["", "", ", standard [shipping|delivery]", ", no rush", " by normal mail", ", no express"],
}
DELIVERY = {
    True: ["Express [delivery|shipping]", "Express: yes", "It is urgent", "Please use express"],
    False: ["[Standard|Normal] [delivery|shipping]", "Express: no", "No rush", "No express needed"],
}
STATES = {
    True: ["paid", "already paid", "settled", "paid in full"],
    False: ["unpaid", "not paid yet", "still open", "not yet paid", "outstanding"],
}
PLACES = {
    True: [
        "[Fully remote|Remote|Work from home|Remote work is possible|100% remote|Remote position].",
        "You can work from [home|anywhere].",
    ],
    False: [
        "[On site|Office only|No remote work|In our office|On-site position|Not remote].",
        "You work in [our office|the office].",
    ],
}
ALERTS = {
    True: [
        ". [The alarm is on|Alarm|The alarm went off|Alarm: yes|An alarm was raised].",
        ", alarm [on|active].",
    ],
    False: [". [No alarm|The alarm is off|All normal|Alarm: no].", ", no alarm.", ", alarm off.", "."],
}
MIXES = {
    True: [
        " [on shuffle|shuffled|in random order|with shuffle on].",
        ", [shuffle please|in any order|shuffled].",
    ],
    False: [" [in order|without shuffle|from the start].", ", [no shuffle|not shuffled].", ".", "."],
}

DISTRACTORS = [
    "[The weather was fine|It rained all day|The coffee was good|Nothing else happened|More tomorrow|That is all].",
    "[The phone number ends in|The room number is|The office has|We counted] {n}[| this time].",
    "[{other} sent the file|{other} was not there|{other} will call later|It was {other} who told us].",
    "[Please reply soon|Thank you|Sorry for the delay|Have a nice day|Do not forget].",
    "[The file was sent|This note was written|The list was updated] on {otherdate}.",
    "[The bus from|The train from|A letter from|News from] {othercity} [was late|has arrived].",
]
COMMANDS = ["Extract the", "Extract the", "Extract the", "Get the", "Fill in the", "Return the", "Find the"]
LABELS = ["Text", "Text", "Text", "Text", "Input", "Message"]
MONTHS = "January February March April May June July August September October November December".split()
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve".split()
