;;; edn-bridge-agents.el --- External agents  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands of a chat buffer for external agents (Claude Code, Codex ...),
;; which the configuration names: begin a session whose turns one of them
;; answers, and choose what it offers to be chosen, such as its model.
;; What agents say of themselves is shown as data.  Under the prefix
;; C-c C-o.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)
(require 'edn-bridge-sessions)

;;;; The agents

(defun edn-bridge-agents--fetch ()
  "Have the names of the agents of this chat's folder completed."
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-rpc-request
     conn "list_agents" nil
     :on-success (lambda (data)
                   (edn-bridge-chat-with-buffer conn
                     (edn-bridge-agents--note data)))
     ;; An older bridge has none.
     :on-error #'ignore)))

(defun edn-bridge-agents--note (data)
  "Note the names of the agents that DATA of the bridge lists; return these."
  (let ((agents (append (plist-get data :agents) nil)))
    (setq edn-bridge-complete-agents
          (mapcar (lambda (agent) (plist-get agent :name))
                  (seq-filter #'edn-bridge-agents--ready-p agents)))
    agents))

(defun edn-bridge-agents--ready-p (agent)
  "Return non-nil if a session with AGENT can be begun as things are."
  (not (equal (edn-bridge-chat-word (plist-get agent :state)) "refused")))

(defun edn-bridge-agents--annotate (agent)
  "Return the annotation of AGENT."
  (let ((state (edn-bridge-chat-word (plist-get agent :state))))
    (string-join
     (delq nil
           (list (pcase state
                   ("ready" "runs")
                   ("starting" "starts")
                   ("refused" "not trusted")
                   ((or "failed" "given-up")
                    (or (plist-get agent :last-error) state)))
                 (plist-get agent :info)
                 (and (eq (plist-get agent :sandbox) :false) "not in a sandbox")
                 (and (equal (edn-bridge-chat-word (plist-get agent :source))
                             "project")
                      "of the project")
                 (and (edn-bridge-edn-true-p (plist-get agent :usual)) "usual")
                 (let ((count (length (plist-get agent :sessions))))
                   (and (> count 0)
                        (format "%d session%s" count (if (= count 1) "" "s"))))
                 (plist-get agent :command)))
     ", ")))

(defun edn-bridge-agents--choose ()
  "Choose an agent and return it."
  (let* ((data (edn-bridge-rpc-call (edn-bridge-chat-current)
                                    "list_agents" nil))
         (agents (edn-bridge-agents--note data)))
    (unless agents
      (user-error "No agent is configured; name one under :agents in the configuration"))
    (edn-bridge-complete-choose
     "New session with agent: " 'edn-bridge-agent
     (append (seq-filter #'edn-bridge-agents--ready-p agents)
             (seq-remove #'edn-bridge-agents--ready-p agents))
     (lambda (agent) (plist-get agent :name))
     #'edn-bridge-agents--annotate)))

(defun edn-bridge-agents-new (name)
  "Begin a new session in this chat whose turns the agent NAME answers.
Interactively, choose it.  Nothing is started before the first message."
  (interactive
   (let ((agent (edn-bridge-agents--choose)))
     (unless (edn-bridge-agents--ready-p agent)
       (user-error "%s" (or (plist-get agent :last-error) "It is not trusted")))
     (list (plist-get agent :name)))
   edn-bridge-chat-mode)
  (edn-bridge-sessions--turn-to (edn-bridge-chat-current) "new_session"
                                (list :agent name)
                                (format "The agent %s answers here"
                                        (edn-bridge-visible-label name))))

;;;; What can be chosen at it

(defun edn-bridge-agents-here ()
  "Return the name of the agent that answers in this chat, or nil."
  (plist-get (edn-bridge-chat-get :agent) :name))

(defun edn-bridge-agents--options (command)
  "Return what can be chosen at the agent of this chat.
Where that is not known yet, the agent is started for it, which takes its
time and may ask: nothing waits, and a button says when it is known, and
calls COMMAND."
  (let ((name (or (edn-bridge-agents-here)
                  (user-error "No external agent answers in this chat; %s begins a session with one"
                              (substitute-command-keys
                               "\\[edn-bridge-agents-new]")))))
    (or (append (edn-bridge-chat-get :options) nil)
        (progn
          (edn-bridge-agents--ask-for-options name command)
          (user-error "Asking %s what can be chosen; a button says when it is known"
                      (edn-bridge-visible-label name))))))

(defun edn-bridge-agents--ask-for-options (name command)
  "Have the agent NAME of this chat tell what can be chosen, for COMMAND."
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "agent_options" nil
     :on-success
     (lambda (data)
       (edn-bridge-chat-with-buffer conn
         (if (append (plist-get data :options) nil)
             (edn-bridge-chat-notice
              (format "What can be chosen at %s is known"
                      (edn-bridge-visible-label name))
              nil
              (list "Choose" command))
           (edn-bridge-chat-notice
            (format "The agent %s offers nothing to choose"
                    (edn-bridge-visible-label name)))))))))

(defun edn-bridge-agents--values (option)
  "Return the values that OPTION can have: property lists with a name."
  (if (plist-member option :values)
      (append (plist-get option :values) nil)
    '((:id t :name "on") (:id :false :name "off"))))

(defun edn-bridge-agents--value-name (option &optional value)
  "Return what the value VALUE of OPTION, or else its own, is called."
  (let ((id (or value (plist-get option :value))))
    (if (plist-member option :values)
        (or (plist-get (seq-find (lambda (known) (equal (plist-get known :id) id))
                                 (edn-bridge-agents--values option))
                       :name)
            id)
      (if (edn-bridge-edn-true-p id) "on" "off"))))

(defun edn-bridge-agents--read-value (option)
  "Choose a value of OPTION and return its id."
  (let ((now (plist-get option :value))
        (switch (not (plist-member option :values))))
    (plist-get
     (edn-bridge-complete-choose
      (format "%s: " (edn-bridge-visible-label (plist-get option :name)))
      'edn-bridge-option
      (edn-bridge-agents--values option)
      (lambda (value) (plist-get value :name))
      (lambda (value)
        (string-join
         (delq nil
               (list (plist-get value :group)
                     (and (if switch
                              (eq (edn-bridge-edn-true-p now)
                                  (edn-bridge-edn-true-p (plist-get value :id)))
                            (equal (plist-get value :id) now))
                          "now")))
         ", ")))
     :id)))

(defun edn-bridge-agents-set-option (option value)
  "Have the agent of this chat use VALUE for OPTION.
OPTION is what the bridge lists of it, VALUE an id, t or :false.
Interactively, choose both; each option is shown with its value."
  (interactive
   (let ((option (edn-bridge-complete-choose
                  "Option: " 'edn-bridge-option
                  (edn-bridge-agents--options #'edn-bridge-agents-set-option)
                  (lambda (option) (plist-get option :name))
                  (lambda (option)
                    (string-join
                     (delq nil (list (edn-bridge-agents--value-name option)
                                     (plist-get option :about)))
                     ", ")))))
     (list option (edn-bridge-agents--read-value option)))
   edn-bridge-chat-mode)
  (edn-bridge-rpc-request
   (edn-bridge-chat-current) "set_option"
   (list :option (plist-get option :id) :value value)
   :on-success
   (lambda (_data)
     (message "%s: %s" (edn-bridge-visible-label (plist-get option :name))
              (edn-bridge-visible-label
               (edn-bridge-agents--value-name option value))))))

(defun edn-bridge-agents-choose (category what command)
  "Choose a value of the agent's option of CATEGORY, which is WHAT for people.
COMMAND does that again."
  (let ((option (seq-find
                 (lambda (option)
                   (equal (edn-bridge-chat-word (plist-get option :category))
                          category))
                 (edn-bridge-agents--options command))))
    (unless option
      (user-error "The agent %s has no choice of %s"
                  (edn-bridge-visible-label (edn-bridge-agents-here)) what))
    (edn-bridge-agents-set-option option
                                  (edn-bridge-agents--read-value option))))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-agents--fetch)

(provide 'edn-bridge-agents)

;;; edn-bridge-agents.el ends here
